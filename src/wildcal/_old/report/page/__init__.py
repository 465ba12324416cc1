"""The report on one suite, a page that works offline: `make_page`."""

from wildcal._old.report.page.page import METRICS, make_page

__all__ = ["METRICS", "make_page"]
