{{- /* How often each id came, and what was charged by that. */ -}}
CREATE TEMP TABLE ids AS
SELECT event_id, hash(event_id) % 16 AS bucket, count(*) AS cnt,
  sum(CASE event_type WHEN 'payment_captured' THEN amount_cents WHEN 'payment_refunded' THEN -amount_cents ELSE 0 END)::BIGINT AS total,
  max(event_time) AS last_time
FROM read_parquet('{{.In}}', hive_partitioning = false)
GROUP BY event_id;
{{range $i := .Buckets}}
COPY (SELECT event_id, cnt, total, last_time FROM ids WHERE bucket = {{$i}} ORDER BY event_id)
TO '{{$.Out}}/{{$i}}.parquet' (FORMAT parquet, COMPRESSION zstd);
{{- end}}
