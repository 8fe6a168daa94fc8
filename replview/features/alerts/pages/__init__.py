"""The pages of alerts, rules and webhooks."""
