"""What Prometheus is told of a ledger."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from locuscore.watch import Recorder, Status

SECONDS_PER_DAY = 86_400


class WatchMetrics:
    """Gauges of the claims, the labels and the spool; set when they are asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._log_e = gauge(
            "locuscore_watch_log_e", "Natural log of the evidence against a claim.", ["claim"]
        )
        self._line = gauge(
            "locuscore_watch_alarm_line", "Natural log at which a claim alarms.", ["claim"]
        )
        self._estimate = gauge(
            "locuscore_watch_estimate", "What a claim bounds, estimated from labels.", ["claim"]
        )
        self._promised = gauge("locuscore_watch_promised", "What a claim promises.", ["claim"])
        self._alarms = gauge("locuscore_watch_alarms", "Claims that have raised their alarm.")
        self._lag = gauge("locuscore_watch_label_lag_seconds", "Mean time from decision to label.")
        self._awaited = gauge("locuscore_watch_labels_awaited", "Labels asked for and not there.")
        self._audit = gauge(
            "locuscore_watch_audit_share", "Share of decisions whose label was asked for."
        )
        self._spool = gauge("locuscore_spool_bytes", "Bytes of decisions not in the ledger yet.")
        self._spool_lag = gauge("locuscore_spool_lag_seconds", "How long the oldest have waited.")
        self._refused = gauge("locuscore_spool_refused_records", "Records the ledger never takes.")
        self._unlogged = Counter(
            "locuscore_unlogged_rows", "Rows scored whose decision was not kept.", registry=registry
        )
        self._counted = 0

    def update(self, recorder: Recorder, status: Status | None) -> None:
        """Set all of them; those of the status as it was computed last."""
        self._spool.set(recorder.waiting_bytes)
        self._spool_lag.set(recorder.lag_seconds)
        self._refused.set(recorder.refused)
        unlogged = recorder.unlogged
        self._unlogged.inc(unlogged - self._counted)
        self._counted = unlogged
        if status is not None:
            self._tell(status)

    def _tell(self, status: Status) -> None:
        claims = [claim for claim in status.data["claims"] if claim["tested"]]
        gauges = {
            "log_e": self._log_e,
            "line": self._line,
            "estimate": self._estimate,
            "promised": self._promised,
        }
        for name, gauge in gauges.items():
            gauge.clear()  # a reload may have brought other claims
            for claim in claims:
                if claim[name] is not None:
                    gauge.labels(claim["name"]).set(claim[name])
        self._alarms.set(sum(claim["alarmed_at"] is not None for claim in claims))
        counts, lag = status.data["counts"], status.data["label_lag_days"]
        self._awaited.set(counts["awaited"])
        if counts["decisions"]:
            self._audit.set(counts["drawn"] / counts["decisions"])
        if lag is not None:
            self._lag.set(lag * SECONDS_PER_DAY)
