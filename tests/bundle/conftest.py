from tests.e2e.conftest import built_pyz, caches, machine

__all__ = ["built_pyz", "caches", "machine"]
