package cli

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/job"
	"hindcast/internal/testenv"
)

// flipped is data with one bit changed.
func flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 1
	return data
}

// chunkEnd is where a column's pages of a row group end.
func chunkEnd(t *testing.T, data []byte, group int, column string) int {
	t.Helper()
	for _, c := range metadata(t, data).RowGroups[group].Columns {
		if c.MetaData.PathInSchema[0] == column {
			start := c.MetaData.DataPageOffset
			if d := c.MetaData.DictionaryPageOffset; d != 0 {
				start = min(start, d)
			}
			return int(start + c.MetaData.TotalCompressedSize)
		}
	}
	t.Fatalf("no column %s", column)
	return 0
}

// metadata is what the footer says.
func metadata(t *testing.T, data []byte) (m format.FileMetaData) {
	t.Helper()
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), data[footerOf(data):len(data)-8], &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// footerOf is where the footer lies.
func footerOf(data []byte) int {
	to := len(data) - 8
	return to - int(binary.LittleEndian.Uint32(data[to:]))
}

// TestAFlippedByte changes bytes of a segment one at a time. With sums, each is noticed. Without them, one in a page is noticed or was of
// no matter, and one in the footer may hide what is there, as DESIGN.md says among the limits; nothing ends in another way.
func TestAFlippedByte(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	j := l.twoTables()
	ws := filepath.Join(t.TempDir(), "ws")
	threeRun(t, j, ws, "--promote").ok(t)
	want := fileSums(t, []job.Job{j}, ws, "seen", "sums")
	summed := l.withSums(j)
	file := l.segmentFile(1, 12)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	footer := footerOf(data)
	step := len(data) / 12
	if testenv.Full() {
		step = len(data) / 400
	}
	refusals, unnoticed, hidden := 0, 0, 0
	for at := 0; at < len(data); at += step {
		l.put(file, flipped(data, at))
		ws := filepath.Join(t.TempDir(), "ws")
		hindcastWith(t, []job.Job{summed}, "plan", "visits", "--from", threeFrom, "--to", threeTo, "--workspace", ws).
			exits(t, exitRefused).has(t, "visits+1+0000000012.zstd.parquet: its SHA-256 is", "restore it")
		r := threeRun(t, j, ws, "--promote")
		switch r.code {
		case exitRefused:
			refusals++
			r.has(t, "visits+1+0000000012.zstd.parquet")
		case 0:
			unnoticed++
			if !maps.Equal(fileSums(t, []job.Job{j}, ws, "seen", "sums"), want) {
				hidden++
				if at < footer {
					t.Errorf("the byte at %d of %d is flipped, and the result is another", at, len(data))
				}
			}
		default:
			t.Errorf("the byte at %d of %d, footer from %d: exit code %d:\n%s", at, len(data), footer, r.code, r.err)
		}
	}
	t.Logf("%d bytes, footer from %d: %d flips refused, %d of no matter, %d gave another result", len(data), footer, refusals, unnoticed, hidden)
}

// TestAFooterThatHidesRows is the limit that DESIGN.md states: a footer whose bounds are damaged, and nothing else, hides
// a row group from runs that it keeps from reading it. Sums notice it.
func TestAFooterThatHidesRows(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	file := l.segmentFile(1, 0)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	summed := l.withSums(l.twoTables())
	// The third row group has the events from 20:00 to 02:00 of the next day. Its greatest is made to be 21:20.
	last := time.Date(2024, 5, 2, 2, 0, 0, 0, time.UTC).UnixMilli()
	was, is := binary.LittleEndian.AppendUint64(nil, uint64(last)), binary.LittleEndian.AppendUint64(nil, uint64(last-1<<24))
	footer := footerOf(data)
	if n := bytes.Count(data[footer:], was); n == 0 {
		t.Fatal("the footer does not have the bound")
	}
	l.put(file, append(bytes.Clone(data[:footer]), bytes.ReplaceAll(data[footer:], was, is)...))

	args := []string{"run", "visits", "--from", "2024-05-02", "--to", "2024-05-04", "--promote"}
	hindcastWith(t, []job.Job{summed}, append(args, "--workspace", filepath.Join(t.TempDir(), "ws"))...).exits(t, exitRefused).
		has(t, "visits+1+0000000000.zstd.parquet: its SHA-256 is", "damaged or replaced", "restore it")

	count := func(args ...string) int {
		ws := filepath.Join(t.TempDir(), "ws")
		hindcastWith(t, []job.Job{l.twoTables()}, append(args, "--workspace", ws)...).ok(t)
		return len(tableRows(t, []job.Job{l.twoTables()}, ws, "seen")) - 1
	}
	if n := count(args...); n != 46 {
		t.Errorf("%d events; that the damage hides two of 48 is what DESIGN.md states as a limit: if that is no longer so, say so there", n)
	}
	// A run that trusts no bounds reads the rows, and holds them against the footer.
	hindcastWith(t, []job.Job{l.twoTables()}, append(args, "--no-prune", "--workspace", filepath.Join(t.TempDir(), "ws"))...).
		exits(t, exitRefused).has(t, "visits+1+0000000000.zstd.parquet", "row group 2", `column "at"`)

	design, err := os.ReadFile(filepath.Join(testenv.Root(t), "DESIGN.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(design), "nothing in Parquet covers the footer") {
		t.Error("DESIGN.md does not state the limit")
	}
}
