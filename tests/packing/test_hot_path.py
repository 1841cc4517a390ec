from packing.hot_path import LIST, STARTS, hot_blocks, hot_modules, written


def test_the_list_is_read_as_it_is_written() -> None:
    assert written(hot_modules()) == LIST.read_text("utf-8")


def test_there_is_a_section_for_each_command() -> None:
    assert list(hot_modules()) == list(STARTS)


def test_the_version_needs_no_module_that_costs_a_millisecond() -> None:
    costly = {"re", "json", "typing", "dataclasses", "pathlib", "argparse", "logging", "subprocess"}

    assert costly & set(hot_modules()["version"]) == set()


def test_each_module_is_in_one_block_with_those_that_the_same_starts_need() -> None:
    sections, blocks = hot_modules(), hot_blocks()

    needed_by = {
        name: tuple(start for start, names in sections.items() if name in names)
        for block in blocks
        for name in block
    }
    assert sum(map(len, blocks)) == len(needed_by) == len(set().union(*sections.values()))
    assert all(len({needed_by[name] for name in block}) == 1 for block in blocks)
    assert needed_by[min(blocks[0])] == tuple(STARTS)
