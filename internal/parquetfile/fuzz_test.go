package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hindcast/internal/record"
	"hindcast/internal/testenv"
)

// FuzzRead holds that no bytes whatever make the reader panic, run on without
// rows, or allocate more than it states.
func FuzzRead(f *testing.F) {
	schema := allKinds()
	b := randomBatch(rand.New(rand.NewPCG(13, 14)), schema, 20)
	f.Add(writeFile(f, schema, WriterOptions{RowGroupRows: 15}, b))
	f.Add(writeFile(f, schema, WriterOptions{Encodings: map[string]Encoding{"z_string": Delta, "a_string": Plain, "a_int64": Delta}}, b))
	f.Add(writeFile(f, schema, WriterOptions{RowGroupRows: 60, PageBytes: 64}, randomBatch(rand.New(rand.NewPCG(17, 18)), schema, 90)))
	f.Add([]byte("PAR1PAR1"))
	for _, data := range ruledFiles(f) {
		f.Add(data)
	}
	if dir := filepath.Join(testenv.Root(f), "..", "shared", "parquet-corpus", "parquet-testing"); testenv.Full() {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() || !strings.HasSuffix(path, ".parquet") {
				return nil
			}
			if data, err := os.ReadFile(path); err == nil && len(data) < 20_000 {
				f.Add(data)
			}
			return nil
		})
	}
	f.Fuzz(func(t *testing.T, data []byte) { mustBehave(t, data) })
}

// ruled declares for each column of f what lets it be read: decimals at their own scale, or as text where they are wide.
func ruled(f *File) (*File, error) {
	rules := map[string]Rule{}
	for _, name := range f.Columns() {
		s, _ := f.Stored(name)
		r := Rule{INT96: s.Type == "INT96"}
		if s.Local || s.Type == "INT96" && len(rules)%2 == 1 {
			r.Zone = time.UTC
		}
		switch {
		case s.Annotation == "DECIMAL" && s.Precision <= MaxScale:
			own := min(max(s.Scale, 0), MaxScale)
			r.Scale = &own
		case s.Annotation == "DECIMAL" || s.Annotation == "INTEGER":
			r.Text = true
		}
		rules[name] = r
	}
	return f.WithRules(rules)
}

// cutInTwo has those rows of the row groups read that lie, by the page index of some column, in the upper half of its values.
func cutInTwo(f *File) (opts ReadOptions, err error) {
	opts.Cuts = map[int]Cut{}
	for g, group := range f.RowGroups() {
		for _, name := range f.Columns() {
			lo, hi, ok := f.Bounds(g, name)
			if !ok {
				continue
			}
			s, ok, err := f.Between(g, name, lo/2+hi/2, math.MaxInt64)
			if err != nil {
				return opts, err
			}
			if ok {
				all := Stretch{0, group.Rows}
				opts.Cuts[g] = Cut{Rows: []Stretch{all, s}[g%2], Late: s, By: name}
				opts.First = []string{name}
			}
		}
	}
	rows := 0
	opts.Wanted = func(b *record.Batch) bool {
		rows += b.Len
		return rows%2 == 0
	}
	return opts, nil
}

// mustBehave reads data, at most 2,000 batches of it.
func mustBehave(t testing.TB, data []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	read := func(how func(*File) (ReadOptions, error)) error {
		f, err := Open(bytes.NewReader(data), int64(len(data)), "fuzz.parquet")
		if err == nil {
			f, err = ruled(f)
		}
		if err != nil {
			return err
		}
		opts, err := how(f)
		if err != nil {
			return err
		}
		r := f.Read(opts)
		for range 2000 {
			b, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			touch(b)
		}
		return nil
	}
	batches := 0
	err := errors.Join(
		read(func(*File) (ReadOptions, error) { return ReadOptions{}, nil }),
		read(func(*File) (ReadOptions, error) {
			return ReadOptions{BatchRows: 100, Wanted: func(*record.Batch) bool {
				batches++
				return batches%3 == 0
			}}, nil
		}),
		read(cutInTwo))
	runtime.ReadMemStats(&after)
	if err != nil && strings.Contains(err.Error(), "panic") {
		t.Fatal(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<30 {
		t.Fatalf("%d MiB allocated (%v)", n>>20, err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Fatalf("it took %v (%v)", d, err)
	}
}

// touch looks at every string of a batch: offsets and codes must lie within.
func touch(b *record.Batch) {
	for i := range b.Columns {
		if c := &b.Columns[i]; c.Kind == record.String {
			for row := range b.Len {
				_ = c.Strings.At(row)
			}
		}
	}
}

// Flipped and cut files that fuzzing would find first, so that each run of the tests has some.
func TestReadOfDamagedFiles(t *testing.T) {
	schema := allKinds()
	rng := rand.New(rand.NewPCG(15, 16))
	data := writeFile(t, schema, WriterOptions{RowGroupRows: 60, Encodings: map[string]Encoding{"z_string": Delta, "a_int64": Delta}},
		randomBatch(rng, schema, 150))
	n := 500
	if testenv.Full() {
		n = 100_000
	}
	for range n {
		bad := bytes.Clone(data)
		for range 1 + rng.IntN(3) {
			bad[rng.IntN(len(bad))] = byte(rng.Uint32())
		}
		if rng.IntN(10) == 0 {
			bad = bad[:rng.IntN(len(bad))]
		}
		mustBehave(t, bad)
	}
	for _, data := range ruledFiles(t) {
		for range n / 20 {
			bad := bytes.Clone(data)
			bad[rng.IntN(len(bad))] = byte(rng.Uint32())
			mustBehave(t, bad)
		}
	}
	// Checksums hide most of a page's own damage: without them, decoders see it.
	for range n {
		bad := bytes.Clone(data)
		bad[4+rng.IntN(len(bad)-4)] ^= 1 << rng.IntN(8)
		f, err := Open(bytes.NewReader(bad), int64(len(bad)), "x")
		if err != nil {
			continue
		}
		r := f.Read(ReadOptions{})
		r.noCRC(true)
		for err == nil {
			var b *record.Batch
			if b, err = r.Next(); err == nil {
				touch(b)
			}
		}
		if strings.Contains(err.Error(), "panic") {
			t.Fatal(err)
		}
	}
}

func (r *Reader) noCRC(off bool) {
	for i := range r.columns {
		r.columns[i].NoCRC = off
	}
}

func TestOpenTakesNoLengthOnTrust(t *testing.T) {
	file := func(footer []byte) []byte {
		b := append([]byte("PAR1"), footer...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(footer)))
		return append(b, "PAR1"...)
	}
	for name, data := range map[string][]byte{
		"empty":                   nil,
		"two magics":              []byte("PAR1PAR1"),
		"a footer of 4 GB":        []byte("PAR1\xff\xff\xff\xffPAR1"),
		"a list of 2^31 schemas":  file([]byte{0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f}),
		"a list of 2^31 groups":   file([]byte{0x15, 2, 0x19, 0x1c, 0x48, 1, 'a', 0, 0x16, 0, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f}),
		"a million structures":    file(bytes.Repeat([]byte{0x1c}, 1_000_000)),
		"a million lists":         file(append([]byte{0xf9, 0x01}, bytes.Repeat([]byte{0x19}, 1_000_000)...)),
		"a name of 2^62 bytes":    file([]byte{0x29, 0x1c, 0x48, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f}),
		"not Parquet, but longer": bytes.Repeat([]byte("csv,"), 100_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(bytes.NewReader(data), int64(len(data)), "x")
		runtime.ReadMemStats(&after)
		if err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%s: %d MiB allocated", name, n>>20)
		}
	}
}
