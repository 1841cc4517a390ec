from packing.hot_path import LIST, STARTS, hot_modules, written


def test_the_list_is_read_as_it_is_written() -> None:
    assert written(hot_modules()) == LIST.read_text("utf-8")


def test_there_is_a_section_for_each_command() -> None:
    assert list(hot_modules()) == list(STARTS)


def test_the_version_needs_no_module_that_costs_a_millisecond() -> None:
    costly = {"re", "json", "typing", "dataclasses", "pathlib", "argparse", "logging", "subprocess"}

    assert costly & set(hot_modules()["version"]) == set()
