"""The jobs in Polars: python3 polars_jobs.py CASE PATTERN OUT FROM TO. Lazily scanned and streamed, columns and time pruned by Polars itself."""

import os
import sys
from datetime import datetime

import polars as pl

case, pattern, out, since, until = sys.argv[1:]
os.makedirs(out, exist_ok=True)

signed = (
    pl.when(pl.col("event_type") == "payment_captured")
    .then(pl.col("amount_cents"))
    .when(pl.col("event_type") == "payment_refunded")
    .then(-pl.col("amount_cents"))
    .otherwise(0)
)
at = pl.col("event_time")
log = pl.scan_parquet(pattern, hive_partitioning=False)
window = log.filter((at >= datetime.fromisoformat(since)) & (at < datetime.fromisoformat(until)))
hour = at.dt.truncate("1h").alias("hour")


def by_hour(rows, keep):
    rows.sink_parquet(
        pl.PartitionBy(out, key="hour", include_key=keep),
        compression="zstd",
        mkdir=True,
        engine="streaming",
    )


if case.startswith("totals"):
    by_hour(
        window.select("event_id", hour, "event_time", "account_id", "version", signed.alias("amt"))
        .unique()
        .group_by("hour", "account_id")
        .agg(
            pl.len().cast(pl.Int64).alias("cnt"),
            pl.col("amt").sum().alias("total"),
            pl.col("version").max().alias("max_version"),
            at.min().alias("min_time"),
            at.max().alias("max_time"),
        )
        .sort("hour", "account_id"),
        keep=True,
    )
elif case.startswith("balances"):
    # An event counts where its version is above all before it in the log.
    before = pl.col("version").cum_max().shift(1).over("account_id")
    (
        log.sort("kafka_partition", "kafka_offset")
        .select("account_id", "version", "event_time", signed.alias("amt"), before.alias("before"))
        .filter(pl.col("before").is_null() | (pl.col("version") > pl.col("before")))
        .group_by("account_id")
        .agg(
            pl.len().cast(pl.Int64).alias("cnt"),
            pl.col("amt").sum().alias("balance"),
            pl.col("version").max().alias("version"),
            at.max().alias("last_time"),
        )
        .sort("account_id")
        .sink_parquet(os.path.join(out, "balances.parquet"), compression="zstd", engine="streaming")
    )
elif case.startswith("map"):
    columns = ["event_id", "event_time", "account_id", "event_type", "amount_cents", "version", "currency", "note"]
    by_hour(window.select(*columns, signed.alias("signed_cents"), hour), keep=False)
else:
    sys.exit(f"{case} is not written for Polars")
