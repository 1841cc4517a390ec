"""How a checkout becomes something that runs: ``rye.pyz``, a wheel, or the checkout itself.

Everything here runs on the machine of whoever builds; none of it is packed. Page:
``docs/building.md``.
"""
