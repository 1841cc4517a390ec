from tests.e2e.conftest import built_pyz, machine

__all__ = ["built_pyz", "machine"]
