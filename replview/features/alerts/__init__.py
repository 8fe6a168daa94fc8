"""Alert rules, their evaluation, and the delivery of alerts to webhooks."""
