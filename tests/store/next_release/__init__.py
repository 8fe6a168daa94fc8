"""An app whose migrations change the store's large tables: what a later release may do, and how."""
