{{- /* Keyed balances: an event counts where its version is above all before it in the log. */ -}}
CREATE TEMP TABLE bal AS
SELECT account_id, cast(substr(account_id, 6) AS INTEGER) % 16 AS bucket, count(*) AS cnt, sum(amt)::BIGINT AS balance,
  max(version) AS "version", max(event_time) AS last_time
FROM (
  SELECT account_id, version, event_time,
    CASE event_type WHEN 'payment_captured' THEN amount_cents WHEN 'payment_refunded' THEN -amount_cents ELSE 0 END AS amt,
    max(version) OVER (PARTITION BY account_id ORDER BY kafka_partition, kafka_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prev
  FROM read_parquet('{{.In}}', hive_partitioning = false)
)
WHERE prev IS NULL OR version > prev
GROUP BY account_id;
{{range $i := .Buckets}}
COPY (SELECT account_id, cnt, balance, "version", last_time FROM bal WHERE bucket = {{$i}} ORDER BY account_id)
TO '{{$.Out}}/{{$i}}.parquet' (FORMAT parquet, COMPRESSION zstd);
{{- end}}
