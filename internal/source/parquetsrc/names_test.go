package parquetsrc

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"hindcast/internal/spec"
)

// Names as the exporters' own code makes them.
func TestNamesOfExporters(t *testing.T) {
	const passed = "passed: "
	for _, c := range []struct {
		naming     spec.Naming
		topic, rel string
		want       string // partition edge offset, or the error
	}{
		// Confluent, default partitioner: FileUtils.topicDirectory, S3Sink's fileKeyToCommit with filename.offset.zero.pad.width=10.
		{spec.KafkaConnect, "orders", "partition=0/orders+0+0000000000.snappy.parquet", "0 first 0"},
		{spec.KafkaConnect, "orders", "partition=12/orders+12+0000001000.parquet", "12 first 1000"},
		{spec.KafkaConnect, "orders", "partition=1/orders+1+12345678901.gz.parquet", "1 first 12345678901"},
		{spec.KafkaConnect, "a.keys.b", "partition=0/a.keys.b+0+0000000007.parquet", "0 first 7"},
		// Its time partitioners, with path.format as documented, and as people write it.
		{spec.KafkaConnect, "orders", "year=2024/month=11/day=03/hour=01/orders+2+0000000100.snappy.parquet", "2 first 100 loose"},
		{spec.KafkaConnect, "orders", "2024/11/03/01/orders+2+0000000100.parquet", "2 first 100 loose"},
		{spec.KafkaConnect, "orders", "dt=2024-11-03 01:00/orders+2+0000000100.parquet", "2 first 100 loose"},
		// Its field partitioner: whatever a field holds.
		{spec.KafkaConnect, "orders", "country=Côte d'Ivoire/orders+3+0000000005.parquet", "3 first 5 loose"},
		{spec.KafkaConnect, "orders", "sku=A+B c%2F9/orders+3+0000000005.parquet", "3 first 5 loose"},
		{spec.KafkaConnect, "orders", "shop=_x/region=東京/orders+3+0000000005.parquet", "3 first 5 loose"},
		{spec.KafkaConnect, "orders", "partition=7/day=1/orders+3+0000000005.parquet", "3 first 5 loose"}, // a field of that name
		// store.kafka.keys and store.kafka.headers; behavior.on.null.values=write.
		{spec.KafkaConnect, "orders", "partition=0/orders+0+0000000000.keys.parquet", passed + string(passedBeside)},
		{spec.KafkaConnect, "orders", "partition=0/orders+0+0000000000.headers.avro", passed + string(passedBeside)},
		{spec.KafkaConnect, "orders", "tombstone/orders+0+0000000003.keys.parquet", passed + string(passedBeside)},
		{spec.KafkaConnect, "orders", "tombstone/orders+0+0000000003.parquet", passed + string(passedTombstones)},
		{spec.KafkaConnect, "orders", "partition=0/orders+0+0000000000.avro", "no .parquet file"},
		{spec.KafkaConnect, "orders", "partition=0/orders-0-0.parquet", "does not begin with the topic"},
		{spec.KafkaConnect, "orders", "partition=0/orders+1+0000000000.parquet", "partition of its folder"},
		{spec.KafkaConnect, "orders", "partition=0/orders+0+.parquet", "no offset"},
		{spec.KafkaConnect, "orders", "partition=0/orders+x+0.parquet", `"x" is no partition number`},
		{spec.KafkaConnect, "orders", "partition=0/orders+0+99999999999999999999.parquet", "no offset"},
		{spec.KafkaConnect, "orders", "d=1/orders+99999999999+0.parquet", "no partition number"},

		{spec.Aiven, "orders", "orders-0-0", "0 first 0"},
		{spec.Aiven, "orders", "orders-3-1500.parquet", "3 first 1500"},
		{spec.Aiven, "orders", "orders-3-00000000000000001500.gz", "3 first 1500"}, // {{start_offset:padding=true}}
		{spec.Aiven, "orders", "2024/11/03/orders-3-1500", "3 first 1500"},
		{spec.Aiven, "orders-1", "orders-1-3-1500", "3 first 1500"},
		{spec.Aiven, "orders", "orders-eu-3-1500", passed + string(passedOther)},
		{spec.Aiven, "orders", "payments-3-1500.snappy", passed + string(passedOther)},
		{spec.Aiven, "orders", "customer 17", "newest record of each key"},
		{spec.Aiven, "orders", "orders-3", "newest record of each key"},
		{spec.Aiven, "orders", "orders-3-k17", "newest record of each key"},

		{spec.Lenses, "orders", "orders/0/000000000099_1700000000000_1700000099000.parquet", "0 last 99"},
		{spec.Lenses, "orders", "backup/orders/11/000000000099.parquet", "11 last 99"},
		{spec.Lenses, "orders", "0/000000000099.parquet", "0 last 99"},
		{spec.Lenses, "orders", "country=de/orders(2_41).parquet", "2 last 41 loose"},
		{spec.Lenses, "orders", "orders(2_000000041).parquet", "2 last 41 loose"},
		{spec.Lenses, "orders", "payments/0/000000000099_1_2.parquet", passed + string(passedOther)},
		{spec.Lenses, "orders", "x/payments(0_3).parquet", passed + string(passedOther)},
		{spec.Lenses, "orders", "orders/0/000000000099.avro", "no .parquet file"},
		{spec.Lenses, "orders", "orders/eu/000000000099.parquet", "is no partition"},
		{spec.Lenses, "orders", "orders/0/x.parquet", "does not begin with an offset"},
		{spec.Lenses, "orders", "orders(2-41).parquet", "no partition and offset"},
		{spec.Lenses, "orders", "000000000099.parquet", "in no folder of a partition"},

		{spec.Spark, "orders", "date=2024-11-03/part-00000-3f5b0b8e-0000-0000-0000-000000000000-c000.snappy.parquet", "-1 none 0"},
		{spec.Redpanda, "orders", "data/redpanda.timestamp_hour=2024-11-03-01/0-10-abc.parquet", "-1 none 0"},
		{spec.Redpanda, "orders", "metadata/v3.metadata.json", passed + string(passedMetadata)},
		{spec.Redpanda, "orders", "metadata/snap-1.avro", passed + string(passedMetadata)},
		{spec.PlainFolder, "orders", "2024/11/03/part 1+2 – é.parquet", "-1 none 0"},
		{spec.PlainFolder, "orders", "readme.txt", "no .parquet file"},
	} {
		p, err := profileOf(c.naming)
		if err != nil {
			t.Fatal(err)
		}
		n, err := p.parse(c.topic, c.rel)
		got := strings.TrimSpace(strings.Join([]string{
			number32(n.partition), map[edge]string{noEdge: "none", firstEdge: "first", lastEdge: "last"}[n.edge], number64(n.offset), map[bool]string{true: "loose"}[n.loose],
		}, " "))
		var why passedOver
		switch {
		case errors.As(err, &why):
			got = passed + string(why)
		case err != nil:
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s, topic %s, %s: %s; want %s", c.naming, c.topic, c.rel, got, c.want)
		}
	}
}

// What other tools leave among segments is known by its name, whatever the exporter.
func TestNamesOfWhatIsNoSegment(t *testing.T) {
	for rel, want := range map[string]passedOver{
		"_SUCCESS": passedHidden, "day=01/_SUCCESS": passedHidden, "day=01/_temporary/0/x.parquet": passedHidden, ".indexes/orders/0/1": passedHidden,
		"day=01/.part-0.parquet.crc": passedSums, "day=01/part-0.parquet.crc": passedSums, "day=01_$folder$": passedFolder, "day=01/": passedFolder,
		"day=01/.part-1.parquet.inprogress.0": passedHidden, "shop=_x/a.parquet": "", "day=01/part-0.parquet": "", "a.b_c.parquet": "",
	} {
		if got := generic(rel, 0); got != want {
			t.Errorf("%s is passed over as %q, want %q", rel, got, want)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"partition=0/orders+0+0000000000.snappy.parquet", "orders-0-0", "0/000000000099_1_2.parquet", "orders(2_41).parquet", "orders+", "orders(", "orders-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rel string) {
		for _, naming := range spec.Namings() {
			p, err := profileOf(naming)
			if err != nil {
				t.Fatal(err)
			}
			n, err := p.parse("orders", rel)
			if err == nil && (n.offset < 0 || n.partition < 0 != (n.edge == noEdge)) {
				t.Errorf("%s: %q is %+v", naming, rel, n)
			}
			_ = generic(rel, 0)
		}
	})
}

func number32(n int32) string { return strconv.Itoa(int(n)) }
func number64(n int64) string { return strconv.FormatInt(n, 10) }
