package parquetsrc_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/parquetsrc"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

const (
	offsetColumn    = "kafka_offset"
	partitionColumn = "kafka_partition"
	timeColumn      = "kafka_timestamp"
)

// export is a file as an exporter writes it, with some of the columns left out and others called otherwise.
func export(tb testing.TB, rows []sourcetest.Row, rename map[string]string, without ...string) []byte {
	tb.Helper()
	schema, b := sourcetest.Batch(rows, false)
	for i := len(schema) - 1; i >= 0; i-- {
		if slices.Contains(without, schema[i].Name) {
			schema, b.Columns = slices.Delete(schema, i, i+1), slices.Delete(b.Columns, i, i+1)
		} else if name, ok := rename[schema[i].Name]; ok {
			schema[i].Name = name
		}
	}
	return sourcetest.Parquet(tb, schema, b, parquetfile.WriterOptions{RowGroupRows: 7})
}

func sourceOf(naming spec.Naming) spec.Source {
	s := src()
	s.Segments.Naming = naming
	s.Event.Dedupe = true
	return s
}

// planned lists a source and plans a day from the epoch, which is when sourcetest's events happen; later is how many more days there are.
func planned(tb testing.TB, store blob.Store, s spec.Source, tails ...plan.Tail) (plan.Listing, *plan.Plan, error) {
	tb.Helper()
	if tails != nil {
		s.Tail = &spec.Tail{Brokers: []string{"b:9092"}, Value: spec.JSON}
	}
	listing, err := parquetsrc.List(tb.Context(), store, s, sourcetest.Schema()...)
	if err != nil {
		return listing, nil, err
	}
	js := &spec.Spec{Job: "j", Source: s, Dataset: "d", Outputs: []spec.Output{{Table: "t", Scheme: partition.Scheme{Unit: partition.Day, Column: s.Event.Time, Zone: "UTC"}}}}
	js.Source.Event.Lateness = spec.Hour
	day := int64(spec.Day)
	p, err := plan.Build(js, &spec.Window{From: 0, To: day}, plan.Inventory{
		Topic: s.Topic, Segments: listing.Segments, AtLeastOnce: listing.AtLeastOnce, Notes: listing.Notes, HasTail: tails != nil, Tails: tails,
	}, plan.Options{})
	return listing, p, err
}

// rowsOf reads what a plan reads, in order: partition:offset=id.
func rowsOf(tb testing.TB, store blob.Store, s spec.Source, p *plan.Plan) []string {
	tb.Helper()
	shards, _, err := plan.Shards(p, nil)
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, sh := range shards {
		r, err := source.Open(tb.Context(), source.Stores{Segments: store}, sh.Inputs, sourcetest.Schema(), source.LayoutOf(s, nil))
		if err != nil {
			tb.Fatal(err)
		}
		for {
			part, b, err := r.Next(tb.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				tb.Fatal(err)
			}
			for i := range b.Len {
				out = append(out, fmt.Sprintf("%d:%d=%s", part, b.Offsets[i], b.Columns[0].Strings.At(i)))
			}
		}
	}
	return out
}

// log is what rowsOf gives of whole partitions of so many records.
func log(records ...int64) []string {
	var out []string
	for p, n := range records {
		for o := range n {
			out = append(out, fmt.Sprintf("%d:%d=p%d-%d", p, o, p, o))
		}
	}
	return out
}

func sameRows(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%d rows, want %d; from the %dth on they differ: %v", len(got), len(want), i, got[min(i, len(got)):min(i+3, len(got))])
			}
		}
	}
}

// splits cuts offsets in the files that a partitioner has open side by side: each row goes to the folder that its field or time says, and a folder's
// file is closed after some rows.
func splits(rng *rand.Rand, n int64, folders []string) map[string]plan.Ranges {
	open, out := map[string]plan.Ranges{}, map[string]plan.Ranges{}
	closeFile := func(folder string) {
		if r := open[folder]; len(r) > 0 {
			out[fmt.Sprintf("%s/%d", folder, r[0].First)] = r
			delete(open, folder)
		}
	}
	for o := range n {
		folder := folders[rng.IntN(len(folders))]
		open[folder] = open[folder].Union(plan.Ranges{{First: o, Next: o + 1}})
		if rng.IntN(20) == 0 {
			closeFile(folder)
		}
	}
	for _, f := range folders {
		closeFile(f)
	}
	return out
}

// Files of one partition that were open side by side are merged by offset, whatever their folders are called, and no folder's time is taken
// for the truth: late events lie in their own hour, in a neighbour's, or in that of their arrival, and a day with 25 hours has one hour twice.
func TestFilesOfTimeAndFieldPartitionersAreMergedByOffset(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 3))
		folders := [][]string{
			{"year=2024/month=11/day=03/hour=00", "year=2024/month=11/day=03/hour=01", "year=2024/month=11/day=03/hour=02"},
			{"year=1999/month=01/day=01", "year=2031/month=12/day=31"}, // the connector's clock, at two replays
			{"country=Côte d'Ivoire", "country=A+B", "country=東京 2", "country=_none", "country=a%2Fb"},
			{"2024/11/03/01", "2024/11/03/02"},
		}[seed%4]
		mem := memblob.New()
		for p, n := range []int64{200, 130} {
			for name, offsets := range splits(rng, n, folders) {
				key := fmt.Sprintf("topics/payments/%s/payments+%d+%010d.snappy.parquet", name[:strings.LastIndexByte(name, '/')], p, offsets[0].First)
				sourcetest.Put(t, mem, key, export(t, sourcetest.Events(int32(p), offsets), nil))
			}
		}
		s := sourceOf(spec.KafkaConnect)
		_, p, err := planned(t, mem, s)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sameRows(t, rowsOf(t, mem, s, p), log(200, 130))
	}
}

// Without an offset column such files tell nothing of their offsets: the brokers give them, or the plan refuses and says why.
func TestFilesOfTimePartitionersWithoutOffsetsAreRefused(t *testing.T) {
	mem := memblob.New()
	sourcetest.Put(t, mem, "topics/payments/hour=01/payments+0+0000000000.parquet", export(t, sourcetest.Events(0, dense(0, 50)), nil, offsetColumn, partitionColumn))
	sourcetest.Put(t, mem, "topics/payments/hour=02/payments+0+0000000050.parquet", export(t, sourcetest.Events(0, dense(50, 90)), nil, offsetColumn, partitionColumn))
	_, _, err := planned(t, mem, sourceOf(spec.KafkaConnect))
	for _, want := range []string{"partition 0: no record with the offsets from 0 on can be told", `hour=01/payments+0+0000000000.parquet cannot be used: it has no column "kafka_offset"`, "side by side", "InsertField"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	_, p, err := planned(t, mem, sourceOf(spec.KafkaConnect), plan.Tail{Partition: 0, Start: 0, End: 120})
	if err != nil || p.Partitions[0].Tail.String() != "0-120" || len(p.Partitions[0].Segments) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Exports restarted with other boundaries overlap: each record is read once, and what no file has is named.
func TestRestartedExportsOverlapAndGapsAreNamed(t *testing.T) {
	mem := memblob.New()
	for _, r := range []plan.Range{{First: 0, Next: 100}, {First: 50, Next: 150}, {First: 200, Next: 300}} {
		put(t, mem, 0, r.First, plan.Ranges{r}, parquetfile.WriterOptions{})
	}
	_, _, err := planned(t, mem, sourceOf(spec.KafkaConnect))
	gap, ok := errors.AsType[*plan.GapError](err)
	if !ok || len(gap.Gaps) != 1 || gap.Gaps[0].String() != "0:150-200" {
		t.Fatal(err)
	}
	put(t, mem, 0, 150, dense(150, 210), parquetfile.WriterOptions{})
	s := sourceOf(spec.KafkaConnect)
	_, p, err := planned(t, mem, s)
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(300))
}

// Without offsets such exports are told apart from whole ones by their rows, and nothing of them is guessed.
func TestRestartedExportsWithoutOffsetsAreRefused(t *testing.T) {
	mem := memblob.New()
	for _, r := range []plan.Range{{First: 0, Next: 100}, {First: 50, Next: 150}, {First: 200, Next: 300}} {
		sourcetest.Put(t, mem, sourcetest.Key(0, r.First), export(t, sourcetest.Events(0, plan.Ranges{r}), nil, offsetColumn, partitionColumn))
	}
	s := sourceOf(spec.KafkaConnect)
	listing, _, err := planned(t, mem, s)
	if err == nil || !strings.Contains(err.Error(), "0:0-200, 0:300-") || !strings.Contains(err.Error(), "100 rows, more than the 50 offsets 0-50 that names give it") {
		t.Fatal(err)
	}
	if why := listing.Segments[1].Why; !strings.Contains(why, "100 rows for the 150 offsets 50-200") {
		t.Error(why)
	}
	// What the brokers still have is taken from them, and what names prove is not.
	_, p, err := planned(t, mem, s, plan.Tail{Start: 0, End: 320})
	if err != nil || p.Partitions[0].Tail.String() != "0-320" {
		t.Errorf("%+v, %v", p, err)
	}
}

// A hung task wrote a shorter object over a longer one, under the same key, when offsets had moved on.
func TestAShorterObjectUnderTheSameKeyLeavesAGap(t *testing.T) {
	for _, bare := range []bool{false, true} {
		mem := memblob.New()
		without := []string{}
		if bare {
			without = []string{offsetColumn, partitionColumn, timeColumn}
		}
		write := func(first, next int64) {
			sourcetest.Put(t, mem, sourcetest.Key(0, first), export(t, sourcetest.Events(0, dense(first, next)), nil, without...))
		}
		write(0, 31)
		write(31, 60)
		s := sourceOf(spec.KafkaConnect)
		_, p, err := planned(t, mem, s)
		if err != nil {
			t.Fatal(err)
		}
		sameRows(t, rowsOf(t, mem, s, p), log(60))

		write(0, 21)
		_, _, err = planned(t, mem, s)
		gap, ok := errors.AsType[*plan.GapError](err)
		want := map[bool]string{false: "0:21-31", true: "0:0-31"}[bare]
		if !ok || len(gap.Gaps) != 1 || gap.Gaps[0].String() != want {
			t.Errorf("without columns %v: %v", without, err)
		}
		if bare && !strings.Contains(err.Error(), "21 rows for the 31 offsets 0-31 that names give it") {
			t.Error(err)
		}
		// The plan that was made before finds out when it reads.
		shards, _, err := plan.Shards(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := source.Open(t.Context(), source.Stores{Segments: mem}, shards[0].Inputs, sourcetest.Schema(), source.LayoutOf(s, nil))
		if err == nil {
			_, _, err = r.Next(t.Context())
		}
		if !errors.Is(err, source.ErrChanged) || !strings.Contains(err.Error(), sourcetest.Key(0, 0)) {
			t.Errorf("read with %v", err)
		}
	}
}

// A tombstone lies between two values of a key. Whether the archive left it out or keeps it apart, its offset is a gap, and not nothing.
func TestTombstonesThatAreNotInTheArchiveAreGaps(t *testing.T) {
	mem := memblob.New()
	sourcetest.Put(t, mem, sourcetest.Key(0, 0), export(t, sourcetest.Events(0, plan.Ranges{{First: 0, Next: 1}, {First: 2, Next: 3}}), nil))
	s := sourceOf(spec.KafkaConnect)
	if _, _, err := planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "no record with the offsets 1-2") {
		t.Error(err)
	}
	sourcetest.Put(t, mem, "topics/payments/tombstone/payments+0+0000000001.parquet", []byte("keys"))
	listing, _, err := planned(t, mem, s)
	if err == nil || len(listing.Notes) != 1 || !strings.Contains(listing.Notes[0], "1 objects hold tombstones") || listing.Ignored != 1 {
		t.Errorf("%+v, %v", listing, err)
	}
	// The brokers that still have it fill it.
	if _, p, err := planned(t, mem, s, plan.Tail{Start: 1, End: 3}); err != nil || p.Partitions[0].Tail.String() != "1-2" || !strings.Contains(strings.Join(p.Warnings, "\n"), "tombstones") {
		t.Errorf("%+v, %v", p, err)
	}
}

// A prefix holds what a query engine leaves, and one file that nothing is in: what is known not to be data is counted, the other is an error.
func TestWhatIsUnreadableAmongSegmentsIsAnError(t *testing.T) {
	mem := memblob.New()
	s := sourceOf(spec.PlainFolder)
	sourcetest.Put(t, mem, "day=01/part-0.parquet", export(t, sourcetest.Events(0, dense(0, 10)), nil, offsetColumn, partitionColumn))
	sourcetest.Put(t, mem, "_SUCCESS", nil)
	sourcetest.Put(t, mem, "day=01/.part-0.parquet.crc", []byte("crc"))
	sourcetest.Put(t, mem, "day=02_$folder$", nil)
	listing, p, err := planned(t, mem, s)
	if err != nil || listing.Ignored != 3 || len(listing.Passed) != 3 {
		t.Fatalf("%+v, %v", listing, err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(10))
	sourcetest.Put(t, mem, "day=01/part-1.parquet", nil)
	if _, _, err := planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "day=01/part-1.parquet") || !strings.Contains(err.Error(), "it is empty or cut off") {
		t.Error(err)
	}
}

func TestAThousandAndOneObjects(t *testing.T) {
	const n = 1001
	mem := memblob.New()
	for i := range int64(n) {
		sourcetest.Put(t, mem, sourcetest.Key(0, i), export(t, sourcetest.Events(0, dense(i, i+1)), nil))
	}
	s := sourceOf(spec.KafkaConnect)
	listing, p, err := planned(t, mem, s)
	if err != nil || len(listing.Segments) != n {
		t.Fatalf("%d segments, %v", len(listing.Segments), err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(n))
	// What it took is known: three pages, a look beside them, and a footer each.
	if c := listing.Listed; c.Footers != n || c.Requests != n+4 || c.Scanned != 0 || c.Bytes == 0 {
		t.Errorf("%+v", c)
	}
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.HasPrefix(w, "tiny segments: 1001 of") }) {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// Keys as fields make them, in both a store in memory and one on disk.
func TestKeysWithSpacesPlusesAndUnicode(t *testing.T) {
	disk, err := fileblob.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []blob.Store{memblob.New(), disk} {
		for i, folder := range []string{"name=a b", "name=a+b", "name=a%20b", "name=ß–東京/x= ", "name=a=b", "name=…"} {
			key := fmt.Sprintf("topics/payments/%s/payments+0+%010d.parquet", folder, i*10)
			sourcetest.Put(t, store, key, export(t, sourcetest.Events(0, dense(int64(i*10), int64(i*10+10))), nil))
		}
		s := sourceOf(spec.KafkaConnect)
		_, p, err := planned(t, store, s)
		if err != nil {
			t.Fatal(err)
		}
		sameRows(t, rowsOf(t, store, s, p), log(60))
	}
}

// The location may be what holds the topics folder, that folder, or the topic's own; other topics lie beside it.
func TestWhereATopicLies(t *testing.T) {
	for _, at := range []string{"topics/payments/", "payments/", ""} {
		mem := memblob.New()
		sourcetest.Put(t, mem, at+"hour=01/payments+0+0000000000.parquet", export(t, sourcetest.Events(0, dense(0, 10)), nil))
		sourcetest.Put(t, mem, at+"hour=02/payments+0+0000000010.parquet", export(t, sourcetest.Events(0, dense(10, 20)), nil))
		sourcetest.Put(t, mem, "topics/refunds/partition=0/refunds+0+0000000000.parquet", []byte("other"))
		sourcetest.Put(t, mem, "readme.md", []byte("hello"))
		s := sourceOf(spec.KafkaConnect)
		_, p, err := planned(t, mem, s)
		if err != nil {
			t.Fatalf("%q: %v", at, err)
		}
		sameRows(t, rowsOf(t, mem, s, p), log(20))
	}
	both := memblob.New()
	for _, at := range []string{"topics/payments/", "payments/"} {
		sourcetest.Put(t, both, at+"hour=01/payments+0+0000000000.parquet", export(t, sourcetest.Events(0, dense(0, 10)), nil))
	}
	if _, _, err := planned(t, both, sourceOf(spec.KafkaConnect)); err == nil || !strings.Contains(err.Error(), "below both topics/payments/ and payments/") {
		t.Error(err)
	}
	mem := memblob.New()
	sourcetest.Put(t, mem, "topics/refunds/partition=0/refunds+0+0000000000.parquet", []byte("other"))
	if _, _, err := planned(t, mem, sourceOf(spec.KafkaConnect)); err == nil || !strings.Contains(err.Error(), "there is none; expected objects named topics/payments/") {
		t.Error(err)
	}
}

func TestAivenExports(t *testing.T) {
	// format.output.fields=value: nothing of Kafka in the file. The last file's end is not known, unless there is no tail to join.
	mem := memblob.New()
	for _, r := range []plan.Range{{First: 0, Next: 40}, {First: 40, Next: 100}} {
		sourcetest.Put(t, mem, fmt.Sprintf("payments-0-%d", r.First), export(t, sourcetest.Events(0, plan.Ranges{r}), nil, offsetColumn, partitionColumn, timeColumn))
		sourcetest.Put(t, mem, fmt.Sprintf("payments-eu-0-%d", r.First), []byte("another topic's"))
	}
	s := sourceOf(spec.Aiven)
	s.Segments.Columns = spec.KafkaColumns{Partition: "partition", Offset: "offset", Time: "timestamp"}
	listing, p, err := planned(t, mem, s)
	if err != nil || listing.Segments[0].Quality != plan.Derived || listing.Segments[1].Quality != plan.Derived || len(listing.Notes) != 1 {
		t.Fatalf("%+v, %v", listing, err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(100))
	all := strings.Join(p.Warnings, "\n")
	for _, want := range []string{"the offsets of 2 segments are derived", "the record times of 2 segments are not known", "no hole inside them would be noticed"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
	_, p, err = planned(t, mem, s, plan.Tail{Start: 30, End: 110})
	if err != nil || p.Partitions[0].Tail.String() != "40-110" || len(p.Partitions[0].Segments) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	_, _, err = planned(t, mem, s, plan.Tail{Start: 100, End: 110})
	if err == nil || !strings.Contains(err.Error(), "payments-0-40 cannot be used: it has no column \"offset\", and it is the last of its partition") || !strings.Contains(err.Error(), "0:40-100") {
		t.Error(err)
	}

	// format.output.fields=value,offset,timestamp: times are longs, in milliseconds, and the partition is in the name only.
	mem = memblob.New()
	rows := sourcetest.Events(3, dense(0, 50))
	for i := range rows {
		rows[i].Time = 1_700_000_000_000_000 + int64(i)*1_000_000
	}
	schema, b := sourcetest.Batch(rows, false)
	schema[1].Name, schema[2].Name, schema[2].Kind, b.Columns[2].Kind = "offset", "timestamp", record.Int64, record.Int64
	for i := range b.Columns[2].Int64s {
		b.Columns[2].Int64s[i] /= 1000
	}
	b.Columns = b.Columns[1:]
	sourcetest.Put(t, mem, "2024/payments-3-00000000000000000000", sourcetest.Parquet(t, schema[1:], b, parquetfile.WriterOptions{}))
	listing, err = parquetsrc.List(t.Context(), mem, s, sourcetest.Schema()...)
	if err != nil {
		t.Fatal(err)
	}
	if got := listing.Segments[0]; got.Partition != 3 || got.Quality != plan.Exact || *got.RowGroups[0].RecordTime != (plan.Span{Min: rows[0].Time, Max: rows[49].Time}) {
		t.Errorf("%+v", got)
	}

	// file.name.template={{key}}: the newest record of each key, and no history.
	sourcetest.Put(t, mem, "2024/customer-17", export(t, sourcetest.Events(0, dense(0, 1)), nil))
	if _, err = parquetsrc.List(t.Context(), mem, s); err == nil || !strings.Contains(err.Error(), "which is a state and no history") {
		t.Error(err)
	}
}

func TestLensesExports(t *testing.T) {
	without := []string{offsetColumn, partitionColumn, timeColumn}
	mem := memblob.New()
	write := func(key string, partition int32, offsets plan.Ranges, without ...string) {
		sourcetest.Put(t, mem, key, export(t, sourcetest.Events(partition, offsets), nil, without...))
	}
	write("payments/0/000000000029_1700000000000_1700000029000.parquet", 0, dense(0, 30), without...)
	write("payments/0/000000000099_1700000030000_1700000099000.parquet", 0, dense(30, 100), without...)
	write("payments/.indexes/0/000000000099", 0, nil)
	s := sourceOf(spec.Lenses)
	listing, p, err := planned(t, mem, s)
	if err != nil || listing.Segments[1].First != 30 || listing.Segments[1].Quality != plan.Derived || listing.Ignored != 1 {
		t.Fatalf("%+v, %v", listing, err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(100))
	// The last file ends where its name says, so the tail is joined there.
	if _, p, err = planned(t, mem, s, plan.Tail{Start: 90, End: 120}); err != nil || p.Partitions[0].Tail.String() != "100-120" {
		t.Errorf("%+v, %v", p, err)
	}
	// A file in the middle is missing: the next one has fewer rows than offsets.
	write("payments/0/000000000149_1_2.parquet", 0, dense(120, 150), without...)
	if _, _, err = planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "30 rows for the 50 offsets 100-150") {
		t.Error(err)
	}
	// The first file does not begin at the log's start: what lies before it is deleted history, as of any first segment.
	mem = memblob.New()
	write("payments/0/000000000099_1_2.parquet", 0, dense(60, 100), without...)
	if listing, _, err = planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "history begins at offset 60") || listing.Segments[0].First != 60 {
		t.Errorf("%+v, %v", listing, err)
	}
	// Partitioned by values, with its offsets: merged. Without: refused.
	mem = memblob.New()
	write("country=de/payments(0_8).parquet", 0, plan.Ranges{{First: 0, Next: 1}, {First: 2, Next: 5}, {First: 8, Next: 9}})
	write("country=fr/payments(0_9).parquet", 0, plan.Ranges{{First: 1, Next: 2}, {First: 5, Next: 8}, {First: 9, Next: 10}})
	if _, p, err = planned(t, mem, s); err != nil {
		t.Fatal(err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(10))
	write("country=it/payments(0_12).parquet", 0, dense(10, 12))
	if _, _, err = planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "it ends with offset 11, but its name says 12") {
		t.Error(err)
	}
	write("country=it/payments(0_12).parquet", 0, dense(10, 13), without...)
	if _, _, err = planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "of a time, a field or values") {
		t.Error(err)
	}
}

// Tables that were written anew with flat columns; for Redpanda's own, see TestRedpandasOwnTables.
func TestFlatRedpandaTables(t *testing.T) {
	s := sourceOf(spec.Redpanda)
	mem := memblob.New()
	flat := map[string]string{partitionColumn: "p", offsetColumn: "o", timeColumn: "ts"}
	s.Segments.Columns = spec.KafkaColumns{Partition: "p", Offset: "o", Time: "ts"}
	sourcetest.Put(t, mem, "data/h=1/0-1-x.parquet", export(t, sourcetest.Events(0, dense(0, 30)), flat))
	sourcetest.Put(t, mem, "data/h=1/1-1-x.parquet", export(t, sourcetest.Events(1, dense(0, 20)), flat))
	sourcetest.Put(t, mem, "data/h=2/0-2-x.parquet", export(t, sourcetest.Events(0, dense(30, 40)), flat))
	_, p, err := planned(t, mem, s)
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(40, 20))
	mixed := append(sourcetest.Events(0, dense(40, 45)), sourcetest.Events(1, dense(45, 50))...)
	sourcetest.Put(t, mem, "data/h=3/x.parquet", export(t, mixed, flat))
	if _, _, err = planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "it has records of the partitions 0 and 1") {
		t.Error(err)
	}
}

// A folder whose names and columns tell no offsets: its rows are numbered, the plan says at-least-once, and nothing exact is joined to it.
func TestPlainFoldersAreAtLeastOnce(t *testing.T) {
	without := []string{offsetColumn, partitionColumn, timeColumn}
	mem := memblob.New()
	sourcetest.Put(t, mem, "2024/b.parquet", export(t, sourcetest.Events(0, dense(0, 10)), nil, without...))
	sourcetest.Put(t, mem, "2024/a 2.parquet", export(t, sourcetest.Events(0, dense(5, 20)), nil, without...))
	s := sourceOf(spec.PlainFolder)
	listing, p, err := planned(t, mem, s)
	if err != nil || !listing.AtLeastOnce {
		t.Fatalf("%+v, %v", listing, err)
	}
	if got := rowsOf(t, mem, s, p); len(got) != 25 || got[0] != "0:0=p0-5" || got[15] != "0:15=p0-0" || p.Partitions[0].Segments[0].ETag == "" {
		t.Errorf("%v", got)
	}
	if len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "at-least-once: the segments have no offsets, so events are cut by at and deduped by id") {
		t.Errorf("%q", p.Warnings)
	}
	if _, _, err := planned(t, mem, s, plan.Tail{End: 30}); err == nil || !strings.Contains(err.Error(), "where they end in the log, and the tail begins, is not known") {
		t.Error(err)
	}
	s.Event.Dedupe = false
	if _, _, err := planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "leave dedupe on") {
		t.Error(err)
	}
	s.Event.Dedupe = true
	sourcetest.Put(t, mem, "c.parquet", export(t, sourcetest.Events(0, dense(20, 30)), nil))
	if _, _, err := planned(t, mem, s); err == nil || !strings.Contains(err.Error(), `2024/a 2.parquet has no column "kafka_offset", as 2 of 3 files`) {
		t.Error(err)
	}
	// With the columns it is as exact as any.
	mem = memblob.New()
	sourcetest.Put(t, mem, "z.parquet", export(t, sourcetest.Events(0, dense(0, 12)), nil))
	sourcetest.Put(t, mem, "a.parquet", export(t, sourcetest.Events(0, dense(10, 20)), nil))
	sourcetest.Put(t, mem, "b.parquet", export(t, sourcetest.Events(1, dense(0, 20)), nil))
	listing, p, err = planned(t, mem, s)
	if err != nil || listing.AtLeastOnce {
		t.Fatalf("%+v, %v", listing, err)
	}
	sameRows(t, rowsOf(t, mem, s, p), log(20, 20))
}

// Of random exports without an offset column, whatever is called derived is what the log has, and what cannot be told is not used.
func TestDerivedOffsetsAreTrue(t *testing.T) {
	var seen [3]int
	logs := uint64(40)
	if testenv.Full() {
		logs = 400
	}
	for seed := range logs {
		rng := rand.New(rand.NewPCG(seed, 5))
		holes := rng.IntN(2) == 0
		var offsets plan.Ranges
		n := 20 + rng.Int64N(200)
		for o := range n {
			if !holes || rng.IntN(25) > 0 {
				offsets = offsets.Union(dense(o, o+1))
			}
		}
		last := rng.IntN(2) == 0 // whose names have the last offset
		s := sourceOf(spec.KafkaConnect)
		if last {
			s.Segments.Naming = spec.Lenses
		}
		tail := rng.IntN(2) == 0
		if tail {
			s.Tail = &spec.Tail{}
		}
		mem := memblob.New()
		truth := map[string]plan.Ranges{}
		first, final := "", ""
		for at := int64(0); at < n; {
			next := min(n, at+1+rng.Int64N(30))
			of := offsets.Clip(plan.Range{First: at, Next: next})
			at = next
			if len(of) == 0 || rng.IntN(15) == 0 {
				continue // not written, or lost
			}
			key := sourcetest.Key(0, of[0].First)
			if last {
				key = fmt.Sprintf("payments/0/%012d_1_2.parquet", of.Hull().Next-1)
			}
			truth[key] = of
			if first == "" {
				first = key
			}
			final = key
			sourcetest.Put(t, mem, key, export(t, sourcetest.Events(0, of), nil, offsetColumn, partitionColumn))
		}
		if len(truth) == 0 {
			continue
		}
		listing, err := parquetsrc.List(t.Context(), mem, s)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, g := range listing.Segments {
			of := truth[g.Key]
			outermost := last && g.Key == first || !last && g.Key == final
			switch {
			case g.Quality == plan.Derived:
				seen[0]++
				if of.String() != (plan.Range{First: g.First, Next: g.Next}).String() && !outermost {
					t.Errorf("seed %d: %s is derived as %d-%d, it has %s", seed, g.Key, g.First, g.Next, of)
				}
				if outermost && !last && tail {
					t.Errorf("seed %d: %s is said to be known, though the tail follows it", seed, g.Key)
				}
			case g.Quality == plan.Unknown && g.First <= of[0].First && of.Hull().Next <= g.Next && g.Why != "":
				seen[1]++
			default:
				t.Errorf("seed %d: %+v of %s", seed, g, of)
			}
		}
	}
	if seen[0] == 0 || seen[1] == 0 {
		t.Errorf("%v", seen)
	}
}
