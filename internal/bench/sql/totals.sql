{{- /* Hourly totals. Event times are narrowed to 32 bits, and SELECT DISTINCT over what is needed is faster than DISTINCT ON the id. */ -}}
CREATE TEMP TABLE agg AS
SELECT e // 3600000 AS h, account_id, count(*) AS cnt, sum(amt)::BIGINT AS total, max(version)::BIGINT AS max_version,
  make_timestamptz((min(e) + {{.FromMillis}}) * 1000) AS min_time, make_timestamptz((max(e) + {{.FromMillis}}) * 1000) AS max_time
FROM (
  SELECT DISTINCT event_id, (epoch_ms(event_time) - {{.FromMillis}})::INTEGER AS e, account_id, version::INTEGER AS version,
    (CASE event_type WHEN 'payment_captured' THEN amount_cents WHEN 'payment_refunded' THEN -amount_cents ELSE 0 END)::INTEGER AS amt
  FROM read_parquet('{{.In}}', hive_partitioning = false)
  WHERE event_time >= TIMESTAMPTZ '{{.From}}' AND event_time < TIMESTAMPTZ '{{.To}}'
)
GROUP BY ALL;
{{range $i, $hour := .Hours}}
COPY (SELECT TIMESTAMPTZ '{{$hour}}' AS hour, account_id, cnt, total, max_version, min_time, max_time FROM agg WHERE h = {{$i}} ORDER BY account_id)
TO '{{$.Out}}/{{$i}}.parquet' (FORMAT parquet, COMPRESSION zstd);
{{- end}}
