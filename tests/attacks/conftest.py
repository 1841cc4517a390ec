from tests.support.built import built_pyz

__all__ = ["built_pyz"]
