{{- /* A map, partitioned by hour. */ -}}
COPY (
  SELECT event_id, event_time, account_id, event_type, amount_cents, version, currency, note,
    CASE event_type WHEN 'payment_captured' THEN amount_cents WHEN 'payment_refunded' THEN -amount_cents ELSE 0 END AS signed_cents,
    epoch_ms(event_time) // 3600000 AS h
  FROM read_parquet('{{.In}}', hive_partitioning = false)
  WHERE event_time >= TIMESTAMPTZ '{{.From}}' AND event_time < TIMESTAMPTZ '{{.To}}'
) TO '{{.Out}}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (h), OVERWRITE_OR_IGNORE);
