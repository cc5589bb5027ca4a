package spec

const retail = `
job: daily-country-revenue
why: Net revenue by London day and country, cancellations subtracted
source:
  topic: retail.invoice-lines
  segments: { parquet: samples/retail, naming: kafka-connect, sums: samples/retail/SHA256SUMS }
  tail: { brokers: "embedded:samples/retail/tail.jsonl.zst", value: json }
  event: { id: event_id, time: occurred_at, lateness: 21d, ahead: 2h }
outputs:
  - table: daily-country-revenue
    partition: { day: occurred_at, zone: Europe/London }
dataset: retail
checks:
  rows: { against: base, within: 5% }
  canaries: canaries.csv
  emptied: refuse
  dead-letters: 0
promote: ask
`

const accounts = `
job: account-balance
source:
  topic: retail.invoice-lines
  segments:
    parquet: s3://exports/retail
    columns: {partition: p, offset: o, time: t}
  tail:
    brokers:
      - $KAFKA_BROKERS
      - b-3:9092
  event:
    id: event_id
    time: occurred_at
    dedupe: false
outputs:
  - table: account-balance
    partition: {bucket: account_id, count: 16}
  - table: ledger-entry
    partition: {month: occurred_at, zone: Europe/London}
dataset: s3://lake/accounts
promote: auto
`
