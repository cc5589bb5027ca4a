package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
)

var update = flag.Bool("update", false, "write golden files anew")

// bare is a segment's file without some of its columns.
func bare(t *testing.T, data []byte, without ...string) []byte {
	t.Helper()
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "segment")
	if err != nil {
		t.Fatal(err)
	}
	var schema record.Schema
	var names []string
	for _, c := range f.Schema() {
		if !slices.Contains(without, c.Name) {
			schema, names = append(schema, c), append(names, c.Name)
		}
	}
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, schema, parquetfile.WriterOptions{RowGroupRows: 4})
	if err != nil {
		t.Fatal(err)
	}
	in := f.Read(parquetfile.ReadOptions{Columns: names})
	for {
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// exported takes every segment of a log away and gives it to write.
func (l *smallLog) exported(write func(partition int32, first, next int64, data []byte)) {
	l.t.Helper()
	for p := range int32(2) {
		for first := int64(0); first < 3*threeSegment; first += threeSegment {
			file := l.segmentFile(p, first)
			data, err := os.ReadFile(file)
			if err != nil {
				l.t.Fatal(err)
			}
			if err := os.Remove(file); err != nil {
				l.t.Fatal(err)
			}
			write(p, first, first+threeSegment, data)
		}
	}
}

// What an exporter calls its objects, and whether it writes offsets, does not change what comes out.
func TestNamingsComeToTheSameBytes(t *testing.T) {
	t.Parallel()
	whole := threeDays(t)
	ws := filepath.Join(t.TempDir(), "ws")
	threeRun(t, whole.twoTables(), ws, "--promote").ok(t)
	want := fileSums(t, []job.Job{whole.twoTables()}, ws, "seen", "sums")

	kafka := []string{"kafka_partition", "kafka_offset", "kafka_timestamp"}
	columns := "columns: { partition: kafka_partition, offset: kafka_offset, time: kafka_timestamp }"
	for name, c := range map[string]struct {
		naming string
		says   []string
		export func(l *smallLog)
	}{
		"Confluent's, without offsets": {"kafka-connect", []string{"offsets of 6 segments are derived"}, func(l *smallLog) {
			l.exported(func(p int32, first, _ int64, data []byte) {
				l.put(l.segmentFile(p, first), bare(l.t, data, kafka[:2]...))
			})
		}},
		"Confluent's without offsets before a tail": {"kafka-connect", []string{"offsets of 4 segments are derived"}, func(l *smallLog) {
			l.exported(func(p int32, first, _ int64, data []byte) {
				l.put(l.segmentFile(p, first), bare(l.t, data, kafka[:2]...))
			})
			l.tail(append(threeVisits(0, 24, 36), threeVisits(1, 24, 36)...)...)
		}},
		"Confluent's, by hour of arrival": {"kafka-connect", nil, func(l *smallLog) {
			l.exported(func(p int32, first, _ int64, data []byte) {
				l.put(filepath.Join(l.dir, "topics", smallTopic, "year=2031/month=01/day=01/hour=00", fmt.Sprintf("%s+%d+%010d.snappy.parquet", smallTopic, p, first)), data)
			})
		}},
		"Aiven's, of values only": {"aiven", []string{"offsets of 6 segments are derived", "record times of 6 segments are not known"}, func(l *smallLog) {
			l.exported(func(p int32, first, _ int64, data []byte) {
				l.put(filepath.Join(l.dir, fmt.Sprintf("%s-%d-%d", smallTopic, p, first)), bare(l.t, data, kafka...))
			})
		}},
		"Lenses'": {"lenses", []string{"offsets of 6 segments are derived"}, func(l *smallLog) {
			l.exported(func(p int32, _, next int64, data []byte) {
				l.put(filepath.Join(l.dir, smallTopic, fmt.Sprint(p), fmt.Sprintf("%012d_1_2.parquet", next-1)), bare(l.t, data, kafka...))
			})
		}},
		"Lenses' before a tail": {"lenses", nil, func(l *smallLog) {
			l.exported(func(p int32, first, next int64, data []byte) {
				if first < 2*threeSegment {
					l.put(filepath.Join(l.dir, smallTopic, fmt.Sprint(p), fmt.Sprintf("%012d_1_2.parquet", next-1)), bare(l.t, data, kafka...))
				}
			})
			l.tail(append(threeVisits(0, 24, 36), threeVisits(1, 24, 36)...)...)
		}},
		"Spark's": {"spark, " + columns, nil, func(l *smallLog) {
			log := "v1"
			l.exported(func(p int32, first, _ int64, data []byte) {
				file := fmt.Sprintf("part-%05d-0-c000.snappy.parquet", first+int64(p))
				l.put(filepath.Join(l.dir, file), data)
				log += fmt.Sprintf("\n{\"path\":\"s3://gone/%s\",\"size\":%d,\"action\":\"add\"}", file, len(data))
				l.put(filepath.Join(l.dir, "failed-"+file), data)
			})
			l.put(filepath.Join(l.dir, "_spark_metadata", "0"), []byte(log))
		}},
		"a plain folder": {"plain", nil, func(l *smallLog) {
			l.exported(func(p int32, first, _ int64, data []byte) {
				l.put(filepath.Join(l.dir, "x y", fmt.Sprintf("%d–%d+.parquet", p, first)), data)
			})
		}},
		"a plain folder without offsets, some of it twice": {"plain", []string{"at-least-once"}, func(l *smallLog) {
			l.exported(func(p int32, first, _ int64, data []byte) {
				data = bare(l.t, data, kafka...)
				l.put(filepath.Join(l.dir, fmt.Sprintf("%d %d.parquet", first, p)), data)
				if first == 0 {
					l.put(filepath.Join(l.dir, fmt.Sprintf("again-%d.parquet", p)), data)
				}
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := threeDays(t)
			c.export(l)
			j := changedJob(t, l.twoTables(), map[string]string{"naming: kafka-connect": "naming: " + c.naming}, nil)
			ws := filepath.Join(t.TempDir(), "ws")
			s := threeRun(t, j, ws, "--promote", "--json", "--lap-rows", "7").ok(t).status(t)
			if got := fileSums(t, []job.Job{j}, ws, "seen", "sums"); !maps.Equal(got, want) {
				t.Errorf("other bytes: %v\nwant %v\n%v", got, want, tableRows(t, []job.Job{j}, ws, "seen"))
			}
			duplicates := int64(0)
			for _, a := range s.Account {
				if duplicates += a.Duplicate; a.Total()+a.Skipped != a.Offsets {
					t.Errorf("%+v", a)
				}
			}
			if (duplicates > 0) != strings.Contains(name, "twice") {
				t.Errorf("%d duplicates", duplicates)
			}
			hindcastWith(t, []job.Job{j}, "plan", "visits", "--from", threeFrom, "--to", threeTo, "--workspace", ws).ok(t).has(t, c.says...)
		})
	}
}

// inspected is a log with everything that an inspection tells.
func inspected(t *testing.T) *smallLog {
	l := newSmallLog(t)
	l.segment(threeVisits(0, 0, 24)...)
	l.segment(threeVisits(0, 12, 36)...) // overlaps
	l.segment(threeVisits(0, 40, 60)...) // behind a gap
	for first := 0; first < 48; first += threeSegment {
		file := l.segment(threeVisits(1, first, first+threeSegment)...)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l.put(file, bare(t, data, "kafka_partition", "kafka_offset"))
	}
	file := l.segmentFile(1, 24) // a file that lost rows
	l.put(file, bare(t, mustRead(t, l.segment(threeVisits(1, 24, 30)...)), "kafka_partition", "kafka_offset", "kafka_timestamp"))
	l.litter()
	l.tail(append(threeVisits(0, 55, 70), threeVisits(1, 34, 52)...)...)
	return l
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var sizes = regexp.MustCompile(`\d+(\.\d+)? k?B`)

func TestSourceInspectTellsWhatThereIs(t *testing.T) {
	t.Parallel()
	l := inspected(t)
	ws := filepath.Join(t.TempDir(), "ws")
	list := []job.Job{l.twoTables()}
	got := sizes.ReplaceAllString(hindcastWith(t, list, "source", "inspect", "visits", "--workspace", ws).ok(t).out, "SIZE")
	file := filepath.Join("testdata", "inspect.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(mustRead(t, file)); got != want {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", file, got)
	}
	var in plan.Inspection
	if err := json.Unmarshal([]byte(hindcastWith(t, list, "source", "inspect", "visits", "--workspace", ws, "--json").ok(t).out), &in); err != nil {
		t.Fatal(err)
	}
	if p := in.Partitions; len(p) != 2 || len(p[0].Gaps) != 1 || p[0].Duplicates != 12 || len(p[1].Unusable) != 2 || in.Ignored != 5 {
		t.Errorf("%+v", in)
	}
	// Nothing was written.
	if entries, err := os.ReadDir(ws); err == nil && len(entries) > 0 {
		t.Errorf("the workspace has %v", entries)
	}
}

func TestSourceInspectOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	l := newSmallLog(t)
	l.segment(threeVisits(0, 0, 12)...)
	list := []job.Job{l.twoTables()}
	ws := filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, list, "source", "inspect", "nobody", "--workspace", ws).exits(t, exitUsage).has(t, "there is no job")
	hindcastWith(t, list, "source", "--workspace", ws).exits(t, exitUsage).has(t, "source takes inspect")
	hindcastWith(t, list, "source", "look", "--workspace", ws).exits(t, exitUsage).has(t, "source takes inspect, not look")
	l.put(l.segmentFile(0, 12), []byte("PAR1"))
	hindcastWith(t, list, "source", "inspect", "visits", "--workspace", ws).exits(t, exitRefused).has(t, "visits+0+0000000012")
	// Brokers that do not answer are no reason not to tell of the segments.
	if err := os.Remove(l.segmentFile(0, 12)); err != nil {
		t.Fatal(err)
	}
	l.put(l.tailFile(), []byte("{}"))
	l.hasTail = true
	hindcastWith(t, []job.Job{l.twoTables()}, "source", "inspect", "visits", "--workspace", ws).ok(t).has(t, "exact     0-12", "what the brokers have is not known: start the embedded broker")
}

// The sums name the tail's file, too: it is a part of the log, and nothing else would notice that it was damaged.
func TestDamageToTheTailsFileIsNoticed(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	l.tail(append(threeVisits(0, 36, 40), threeVisits(1, 36, 40)...)...)
	j := l.withSums(l.twoTables())
	sums := filepath.Join(l.dir, "SHA256SUMS")
	text := fmt.Sprintf("%s%s  tail.jsonl\n", mustRead(t, sums), fileSHA256(t, l.tailFile()))
	l.put(sums, []byte(text))
	ws := filepath.Join(t.TempDir(), "ws")
	threeRun(t, j, ws).ok(t)
	data := mustRead(t, l.tailFile())
	l.put(l.tailFile(), bytes.Replace(data, []byte(`"amount":37`), []byte(`"amount":97`), 1))
	threeRun(t, j, ws).exits(t, exitRefused).has(t, "tail.jsonl, the tail: its SHA-256 is", "it was damaged or replaced")
	hindcastWith(t, []job.Job{j}, "source", "inspect", "visits", "--workspace", ws).exits(t, exitRefused).has(t, "tail.jsonl, the tail")
}

func fileSHA256(t *testing.T, file string) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256(mustRead(t, file)))
}

// Whatever an inspection can say has a mark, and what is missing is seen however small it is.
func TestBarsShowWhatIsMissing(t *testing.T) {
	for _, by := range []plan.By{
		plan.ByExact, plan.ByDerived, plan.ByNumber, plan.ByBrokers, plan.ByTiered, plan.ByNothing, plan.ByGap, plan.ByUnusable,
	} {
		if got := bar([]plan.Stretch{{Offsets: plan.Range{First: 0, Next: 1000}, By: by}}, 1000); strings.TrimSpace(got) == "" {
			t.Errorf("%s has no mark", by)
		}
	}
	const end = int64(1) << 62
	cover := []plan.Stretch{
		{Offsets: plan.Range{First: 0, Next: end / 2}, By: plan.ByExact},
		{Offsets: plan.Range{First: end / 2, Next: end/2 + 1}, By: plan.ByGap},
		{Offsets: plan.Range{First: end/2 + 1, Next: end}, By: plan.ByBrokers},
	}
	if got, want := bar(cover, end), strings.Repeat("█", 30)+"·"+strings.Repeat("░", 29); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := bar([]plan.Stretch{{Offsets: plan.Range{First: 0, Next: 1}, By: plan.ByExact}}, 1); got != strings.Repeat("█", 60) {
		t.Errorf("one offset is drawn as %q", got)
	}
	if got := bar(nil, 0); strings.TrimSpace(got) != "" {
		t.Errorf("nothing is drawn as %q", got)
	}
}
