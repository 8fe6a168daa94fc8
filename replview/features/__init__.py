"""Each subpackage is one feature: its addresses, views, pages, queries, texts, API and jobs."""
