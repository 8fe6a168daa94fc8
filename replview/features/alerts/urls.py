"""URLs of alerts, alert rules and webhooks."""

from django.urls import path

from replview.features.alerts import header, webhook_views
from replview.features.alerts import rule_views as alert_rules
from replview.features.alerts import views as alerts

urlpatterns = [
    path("shell/health/", header.shell_health, name="shell-health"),
    path("alerts/", alerts.alerts, name="alerts"),
    path("alerts/seen/", alerts.all_seen, name="alerts-seen"),
    path("alerts/<int:alert_id>/", alerts.alert, name="alert"),
    path("alerts/<int:alert_id>/seen/", alerts.seen, name="alert-seen"),
    path("alerts/rules/", alert_rules.rules, name="alert-rules"),
    path("alerts/rules/new/", alert_rules.new, name="alert-rule-new"),
    path("alerts/rules/try/", alert_rules.attempt, name="alert-rule-try"),
    path("alerts/rules/<int:rule_id>/", alert_rules.rule, name="alert-rule"),
    path("alerts/rules/<int:rule_id>/change/", alert_rules.change, name="alert-rule-change"),
    path("alerts/webhooks/", webhook_views.webhooks, name="webhooks"),
    path("alerts/webhooks/<int:webhook_id>/", webhook_views.change, name="webhook-change"),
]
