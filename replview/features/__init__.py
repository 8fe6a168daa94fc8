"""The features: a folder each, with its addresses, views, page, queries, texts, API and jobs."""
