package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/plan"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/source/tieredsrc/tieredtest"
	"hindcast/internal/step"
)

// tieredLog is a log of two partitions in tiered storage, from offset 0 on, whose records go on in the tail. Of partition 0, the offsets 8-12 are of
// a transaction that was aborted, and 12 is its marker.
type tieredLog struct {
	*smallLog
	store   string // folder
	key     *rsa.PrivateKey
	batches map[int32][][]byte
	events  []rec // those that count
	id      string
}

// The store has the offsets before storeEnd, brokers those from brokerStart on, to tieredEnd.
const (
	storeEnd    = 60
	brokerStart = 50
	tieredEnd   = 80
)

func newTieredLog(t *testing.T) *tieredLog {
	t.Helper()
	return newTieredLogOf(t, value)
}

// newTieredLogOf has the store's values encoded otherwise; the tail's file has JSON.
func newTieredLogOf(t *testing.T, encode func(*testing.T, rec) string) *tieredLog {
	t.Helper()
	l := &tieredLog{smallLog: newSmallLog(t), batches: map[int32][][]byte{}}
	l.store = filepath.Join(l.dir, "tiered")
	var tail []rec
	for p := range int32(2) {
		recs := visits(t, p, 3*time.Hour, tieredEnd)
		for first := int64(0); first < storeEnd; first += 4 {
			batch := batchtest.Batch{First: first, Timestamp: recs[first+3].recordTime(t).UnixMilli()}
			for o := first; o < first+4; o++ {
				batch.Values = append(batch.Values, encode(t, recs[o]))
			}
			if p == 0 && first == 8 {
				batch.Producer = 1
			}
			if p == 0 && first == 12 {
				l.batches[p] = append(l.batches[p], batchtest.Marker(12, 1, 0, false))
				batch.First, batch.Values = 13, batch.Values[1:]
			}
			l.batches[p] = append(l.batches[p], batch.Encode())
		}
		for _, r := range recs {
			// The store has all records of a batch with one time.
			if r.Offset < storeEnd {
				r.Time = recs[r.Offset/4*4+3].recordTime(t).Format(time.RFC3339Nano)
			}
			if p == 1 || r.Offset < 8 || r.Offset > 12 {
				l.events = append(l.events, r)
			}
			if r.Offset >= brokerStart {
				if r.Offset < storeEnd { // what the store has is not asked of brokers
					r.Raw, r.Shop = `{"what": "is not to be read"}`, "y"
				}
				tail = append(tail, r)
			}
		}
	}
	l.tail(tail...)
	raw, err := os.ReadFile(l.tailFile())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append([]byte(smallTopic+"\n"), raw...))
	l.id = base64.RawURLEncoding.EncodeToString(sum[:16])
	return l
}

func value(t *testing.T, r rec) string {
	t.Helper()
	return string(jsonOf(t, map[string]any{"id": r.ID, "at": r.At, "shop": r.Shop, "amount": r.Amount}))
}

// aiven puts the log into a folder as Aiven's plugin does, encrypted, in segments of about 20 offsets.
func (l *tieredLog) aiven() *tieredLog {
	l.t.Helper()
	store, err := fileblob.New(l.store)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.aivenIn(store, "")
}

// aivenIn puts it into any store, below a prefix.
func (l *tieredLog) aivenIn(store blob.Store, prefix string) *tieredLog {
	l.t.Helper()
	var err error
	if l.key == nil {
		if l.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			l.t.Fatal(err)
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(l.key)
	if err != nil {
		l.t.Fatal(err)
	}
	l.put(filepath.Join(l.dir, "keys", "k1.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	w := tieredtest.Aiven{Store: store, Prefix: prefix, Topic: smallTopic, TopicID: l.id, Compress: true, Key: &l.key.PublicKey, KeyID: "k1"}
	for p, batches := range l.batches {
		segments, err := tieredtest.Cut(batches, 20, 40)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, s := range segments {
			if err := w.Put(l.t.Context(), p, tieredtest.ID(fmt.Sprint(p, s.Base)), s); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	return l
}

// objects are the files of the segment of a partition that begins at an offset.
func (l *tieredLog) objects(partition int32, base int64) []string {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.store, smallTopic+"-*", fmt.Sprint(partition), fmt.Sprintf("%020d-*", base)))
	if err != nil || len(files) != 3 {
		l.t.Fatalf("%q, %v", files, err)
	}
	return files
}

// reads is a job that reads the log from tiered storage, into a table by day; with the tail, if that is set.
func (l *tieredLog) reads(tail bool) []job.Job { return l.cut("day UTC", tail) }

func (l *tieredLog) cut(table string, tail bool) []job.Job {
	l.t.Helper()
	l.t.Setenv("TIERED_KEYS", filepath.Join(l.dir, "keys"))
	j := l.job(smallJob{Tables: map[string]string{"events": table}})
	words := map[string]string{
		fmt.Sprintf("parquet: %q, naming: kafka-connect", l.dir): fmt.Sprintf("tiered: %q, layout: aiven, key: { k1: $TIERED_KEYS/k1.pem }", l.store),
	}
	if !tail {
		words[fmt.Sprintf("  tail: { brokers: %q, value: json }\n", "embedded:"+l.tailFile())] = ""
	}
	return []job.Job{changedJob(l.t, j, words, nil)}
}

var tieredWindow = []string{"--from", "2024-05-03", "--to", "2024-05-10"}

func with(args []string, more ...string) []string { return append(slices.Clone(args), more...) }

// parts are the files of a table's partitions, by their paths below the run.
func parts(t *testing.T, ws string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(ws, "datasets/visits/data/*/*/*/*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		rel := strings.Split(filepath.ToSlash(f), "/")
		out[strings.Join(rel[len(rel)-3:], "/")] = b
	}
	return out
}

// What the store has is read from it, though the brokers have other records there; the aborted transaction is left out; the rest comes from the
// brokers; and the files are those that exported segments give.
func TestTieredSegmentsAndTheTailMakeTheSameFiles(t *testing.T) {
	l := newTieredLog(t).aiven()
	list := l.reads(true)
	ws := filepath.Join(t.TempDir(), "ws")
	planned := hindcastWith(t, list, with([]string{"plan", "visits", "--workspace", ws}, tieredWindow...)...).ok(t)
	contains(t, "plan", planned.out, "in tiered storage", "TIERED", "60-80", "captures 120 records of 6 segments", "40 records of the tail")
	run := hindcastWith(t, list, with([]string{"run", "visits", "--promote", "--json", "--workspace", ws}, tieredWindow...)...).ok(t)

	exported := newSmallLog(t)
	for p := range int32(2) {
		var recs []rec
		for _, r := range l.events {
			if r.Partition == p {
				recs = append(recs, r)
			}
		}
		exported.segment(recs...)
	}
	other := filepath.Join(t.TempDir(), "ws")
	j := exported.job(smallJob{Tables: map[string]string{"events": "day UTC"}})
	hindcastWith(t, []job.Job{j}, with([]string{"run", "visits", "--promote", "--workspace", other, "--accept-gap", "0:8-13"}, tieredWindow...)...).ok(t)
	want, got := parts(t, other), parts(t, ws)
	if len(want) != len(got) {
		t.Errorf("%d files, %d from exports", len(got), len(want))
	}
	for name, b := range want {
		if !bytes.Equal(got[name], b) {
			t.Errorf("%s differs", name)
		}
	}

	var tiered, tail int64
	for _, a := range run.status(t).Account {
		if a.Total()+a.Skipped != a.Offsets {
			t.Errorf("%+v", a)
		}
		switch a.Origin {
		case "tiered":
			tiered += a.Offsets
		case "tail":
			tail += a.Offsets
		}
	}
	if tail != 2*(tieredEnd-storeEnd) || tiered == 0 || tiered > 2*storeEnd {
		t.Errorf("%d offsets are of tiered storage, %d of the tail", tiered, tail)
	}
	assertNoKey(t, ws)

	// Without a tail the log ends where the store's does.
	ws = filepath.Join(t.TempDir(), "ws")
	short := hindcastWith(t, l.reads(false), "run", "visits", "--from", "2024-05-03", "--to", "2024-05-07", "--promote", "--workspace", ws).ok(t)
	contains(t, "without a tail", short.err+short.out, "the job has no tail: of partitions [0 1], what entered the log after the last segment is not seen")
	for name, b := range parts(t, ws) {
		if !bytes.Equal(got[name], b) {
			t.Errorf("without a tail %s differs", name)
		}
	}
}

// assertNoKey looks for the private key in all that a workspace has.
func assertNoKey(t *testing.T, ws string) {
	t.Helper()
	err := filepath.WalkDir(ws, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("PRIVATE KEY")) {
			t.Errorf("a key is stored in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestInspectionOfTieredSegments(t *testing.T) {
	l := newTieredLog(t).aiven()
	out := hindcastWith(t, l.reads(true), "source", "inspect", "visits").ok(t).out
	contains(t, "inspect", out, "tiered   6 segments", "partition 1: 3 segments of tiered storage", "tiered    0-60  3 segments", "brokers   60-80",
		"have 50-80; what tiered storage has is not asked of them", "▚ tiered storage")
	for _, f := range l.objects(1, 20) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	out = hindcastWith(t, l.reads(true), "source", "inspect", "visits").ok(t).out
	contains(t, "a missing segment", out, "missing   no record with the offsets 20-40, between the segments", "no segment has them")
}

// A segment that is missing in the store and on the brokers is named; what the brokers have of it they serve.
func TestMissingTieredSegmentIsNamed(t *testing.T) {
	l := newTieredLog(t).aiven()
	remove := func(partition int32, base int64) {
		for _, f := range l.objects(partition, base) {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove(1, 20)
	args := with([]string{"plan", "visits", "--workspace", filepath.Join(t.TempDir(), "ws")}, tieredWindow...)
	contains(t, "a hole", hindcastWith(t, l.reads(true), args...).exits(t, 3).err,
		"partition 1: no record with the offsets 20-40, between the segments", "tiered storage does not give them: no segment has them", "1:20-40")
	// Its records are too old for a later window, and then it does not matter.
	late := []string{"plan", "visits", "--workspace", filepath.Join(t.TempDir(), "ws"), "--from", "2024-05-09", "--to", "2024-05-10"}
	contains(t, "late", hindcastWith(t, l.reads(true), late...).ok(t).out, "60-80")

	l = newTieredLog(t).aiven()
	for _, f := range l.objects(1, 40) { // brokers have from 50 on
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	contains(t, "before the brokers begin", hindcastWith(t, l.reads(true), args...).exits(t, 3).err,
		"partition 1: the segments end at offset 40 (", "and the brokers begin at 50", "1:40-50")
}

// What the plan pinned is what is read, or the run is refused: here an object is replaced while the run waits to be resumed.
func TestTieredObjectReplacedAfterThePlanIsRefused(t *testing.T) {
	l := newTieredLog(t).aiven()
	list := l.reads(true)
	dir := t.TempDir()
	for name, change := range map[string]func(file string, b []byte) error{
		"replaced": func(file string, b []byte) error {
			return os.WriteFile(file, append(bytes.Clone(b), ' '), 0o644)
		},
		"deleted": func(file string, _ []byte) error { return os.Remove(file) },
	} {
		for _, part := range []string{".log", ".indexes", ".rsm-manifest"} {
			if name == "replaced" && part == ".rsm-manifest" {
				continue // the plugin writes it anew when keys change; what it says is held against the rest
			}
			ws := filepath.Join(dir, name+part, "ws")
			var file string
			for _, f := range l.objects(1, 40) {
				if strings.HasSuffix(f, part) {
					file = f
				}
			}
			was, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var once sync.Once
			opts := local.Options{Jobs: list, Embedded: true, Wrap: func(s blob.Store) blob.Store {
				return blob.Hook(s, func(op blob.Op) (err error) {
					if op.Done && path.Base(op.Key) == "plan.json" {
						once.Do(func() { err = change(file, was) })
					}
					return err
				})
			}}
			r := hindcastUnder(t, opts, with([]string{"run", "visits", "--workspace", ws}, tieredWindow...)...)
			contains(t, name+part, r.exits(t, 3).err, "the tiered segments have changed since they were listed", "what the plan pinned is gone: start a new run")
			if err := os.WriteFile(file, was, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The plan names the objects that are read, with their ETags, and so its digest covers them.
func TestPlanPinsTieredObjects(t *testing.T) {
	l := newTieredLog(t).aiven()
	list := l.reads(true)
	ws := filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, list, with([]string{"run", "visits", "--workspace", ws}, tieredWindow...)...).ok(t)
	files, err := filepath.Glob(filepath.Join(ws, "runs/*/plan.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var p step.Planned
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	for _, part := range p.Plan.Partitions {
		if got := part.FromBrokers(); !slices.Equal(got, plan.Ranges{{First: storeEnd, Next: tieredEnd}}) {
			t.Errorf("partition %d: %s is read from the brokers", part.Partition, got)
		}
		if len(part.Stored) != 1 || part.Stored[0].Offsets.Next != storeEnd || part.Stored[0].Epoch != 0 {
			t.Fatalf("%+v", part.Stored)
		}
		n := part.Stored[0].Segments
		if len(part.Stored[0].Objects) != 3*n || n < 2 {
			t.Errorf("partition %d: %d objects of %d segments", part.Partition, len(part.Stored[0].Objects), n)
		}
		for _, o := range part.Stored[0].Objects {
			if o.ETag == "" || o.Size == 0 {
				t.Errorf("%+v", o)
			}
		}
	}
}

// A table by bucket is made of the whole log: of all that is committed in the store, and of the tail.
func TestTieredSegmentsOfTheWholeLog(t *testing.T) {
	l := newTieredLog(t).aiven()
	list := l.cut("bucket id 2", true)
	ws := filepath.Join(t.TempDir(), "ws")
	run := hindcastWith(t, list, "run", "visits", "--promote", "--json", "--workspace", ws).ok(t)
	var want []string
	for _, e := range l.events {
		want = append(want, e.ID)
	}
	got := strings.Fields(ids(t, list, ws))
	slices.Sort(got)
	slices.Sort(want)
	same(t, strings.Join(got, " "), strings.Join(want, " "))
	if sum := sumOf(run.status(t).Account, "events"); sum.Applied != int64(len(want)) || sum.Skipped != 5 || sum.Offsets != 2*tieredEnd {
		t.Errorf("%+v, want %d applied, and 5 without a committed record", sum, len(want))
	}
}

// What is wrong with a key is told before anything is read.
func TestKeysOfTieredSegments(t *testing.T) {
	l := newTieredLog(t).aiven()
	list := l.reads(true)
	file := filepath.Join(l.dir, "keys", "k1.pem")
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, "no PEM", hindcastWith(t, list, "source", "inspect", "visits").exits(t, 2).err, "source.segments.key.k1: ", "k1.pem")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	contains(t, "no file", hindcastWith(t, list, "source", "inspect", "visits").exits(t, 2).err, "source.segments.key.k1: ", "k1.pem: no such file")
	t.Setenv("TIERED_KEYS", "")
	contains(t, "no variable", hindcastWith(t, list, "source", "inspect", "visits").exits(t, 2).err, "the environment has no TIERED_KEYS: set it")
}

// Values in Avro, of two schemas that a registry has, lie in tiered storage and go on in the tail: the files are those that the same events in JSON give.
func TestAvroValuesOfTieredSegmentsAndTheTail(t *testing.T) {
	plain := newTieredLog(t).aiven()
	other := filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, plain.reads(true), with([]string{"run", "visits", "--promote", "--workspace", other}, tieredWindow...)...).ok(t)

	l := newTieredLogOf(t, func(t *testing.T, r rec) string { return string(avroVisit(t, r)) })
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, smallTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	id := c.TopicInfo(smallTopic).TopicID
	l.id = base64.RawURLEncoding.EncodeToString(id[:])
	l.aiven()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var tail []*kgo.Record
	for p := range int32(2) {
		for i, r := range visits(t, p, 3*time.Hour, tieredEnd) {
			v := avroVisit(t, r)
			if i < storeEnd {
				v = []byte("what is not to be read")
			}
			tail = append(tail, &kgo.Record{Topic: smallTopic, Partition: p, Value: v, Timestamp: r.recordTime(t)})
		}
	}
	if err := cl.ProduceSync(t.Context(), tail...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	url, asked := visitRegistry(t)
	t.Setenv("TIERED_KEYS", filepath.Join(l.dir, "keys"))
	list := []job.Job{changedJob(t, l.job(smallJob{Event: visitRules, Tables: map[string]string{"events": "day UTC"}}), map[string]string{
		fmt.Sprintf("parquet: %q, naming: kafka-connect", l.dir):          fmt.Sprintf("tiered: %q, layout: aiven, key: { k1: $TIERED_KEYS/k1.pem }, registry: %q", l.store, url),
		fmt.Sprintf("brokers: %q, value: json", "embedded:"+l.tailFile()): fmt.Sprintf("brokers: %q, value: avro", c.ListenAddrs()[0]),
	}, nil)}
	ws := filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, list, with([]string{"run", "visits", "--promote", "--accept", "retention", "--workspace", ws}, tieredWindow...)...).ok(t)
	if want, got := parts(t, other), parts(t, ws); !maps.EqualFunc(want, got, bytes.Equal) {
		t.Errorf("%d files, %d of JSON, differ: %q", len(got), len(want), ids(t, list, ws))
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the registry was asked %d times for two schemas", n)
	}
}
