package source_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/unit"
)

// without writes rows as a segment that lacks some of the Kafka columns; with the others go the event's. Record times may be integers.
func without(tb testing.TB, store blob.Store, key string, rows []sourcetest.Row, times string, rowGroup int, columns ...string) plan.Input {
	tb.Helper()
	schema, b := sourcetest.Batch(rows, false)
	for i := len(schema) - 1; i >= 0; i-- {
		if slices.Contains(columns, schema[i].Name) {
			schema, b.Columns = slices.Delete(schema, i, i+1), slices.Delete(b.Columns, i, i+1)
			continue
		}
		if schema[i].Name == source.CapturedColumns.Time && times != "" {
			schema[i].Kind, b.Columns[i].Kind = record.Int64, record.Int64
			for row := range b.Columns[i].Int64s {
				switch times {
				case "ms":
					b.Columns[i].Int64s[row] /= 1000
				case "s":
					b.Columns[i].Int64s[row] /= 1_000_000
				}
			}
		}
	}
	data := sourcetest.Parquet(tb, schema, b, parquetfile.WriterOptions{RowGroupRows: rowGroup, PageBytes: 100})
	info := sourcetest.Put(tb, store, key, data)
	in := plan.Input{Partition: rows[0].Partition, Segment: key, ETag: info.ETag, Size: unit.Bytes(info.Size), Rows: int64(len(rows))}
	for i := 0; i*rowGroup < len(rows); i++ {
		in.RowGroups = append(in.RowGroups, i)
	}
	return in
}

// modern are events whose record times are of our century, as those that are milliseconds must be.
func modern(partition int32, offsets plan.Ranges) []sourcetest.Row {
	rows := sourcetest.Events(partition, offsets)
	for i := range rows {
		rows[i].Time += 1_700_000_000_000_000
	}
	return rows
}

type seen struct {
	partition int32
	offset    int64
	id        string
	time      int64 // -1: none
}

func all(tb testing.TB, store blob.Store, inputs ...plan.Input) ([]seen, error) {
	tb.Helper()
	r, err := source.Open(tb.Context(), source.Stores{Segments: store}, inputs, sourcetest.Schema(), source.Layout{Kafka: source.CapturedColumns})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []seen
	for {
		p, b, err := r.Next(tb.Context())
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for i := range b.Len {
			s := seen{p, b.Offsets[i], string(b.Columns[0].Strings.At(i)), -1}
			if b.RecordTimes != nil {
				s.time = b.RecordTimes[i]
			}
			out = append(out, s)
		}
	}
}

// A segment without an offset column has the offsets that its rows' places give, whichever row groups and rows are read.
func TestRowsWithoutAnOffsetColumnAreNumbered(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		mem := memblob.New()
		first := rng.Int64N(1000)
		n := 1 + rng.Int64N(300)
		rows := modern(2, dense(first, first+n))
		group := 1 + rng.IntN(40)
		gone := []string{source.CapturedColumns.Offset, source.CapturedColumns.Partition}
		timed := rng.IntN(2) == 0
		if !timed {
			gone = append(gone, source.CapturedColumns.Time)
		}
		in := without(t, mem, "s", rows, "", group, gone...)
		in.FirstOffset = &first
		if rng.IntN(2) == 0 { // some row groups
			in.RowGroups = slices.DeleteFunc(in.RowGroups, func(int) bool { return rng.IntN(3) == 0 })
		}
		if rng.IntN(2) == 0 { // some rows
			at := first + rng.Int64N(n)
			in.Keep = dense(at, at+1+rng.Int64N(n))
		}
		in.Rows = 0
		var want []seen
		for i, r := range rows {
			if slices.Contains(in.RowGroups, i/group) && (in.Keep == nil || in.Keep.Contains(r.Offset)) {
				s := seen{2, r.Offset, r.ID, -1}
				if timed {
					s.time = r.Time
				}
				want = append(want, s)
			}
		}
		got, err := all(t, mem, in)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d, row groups of %d, %+v: %v\n got %v\nwant %v", seed, group, in, err, got, want)
		}
	}
}

// Numbered segments and those with columns are merged by offset; record times that only some have do not mix.
func TestNumberedRowsAreMergedWithOthers(t *testing.T) {
	mem := memblob.New()
	a := without(t, mem, "a", modern(0, dense(0, 100)), "", 30, source.CapturedColumns.Offset, source.CapturedColumns.Time)
	zero := int64(0)
	a.FirstOffset, a.Keep, a.Rows = &zero, plan.Ranges{{First: 0, Next: 10}, {First: 12, Next: 13}, {First: 60, Next: 100}}, 51
	b := without(t, mem, "b", modern(0, plan.Ranges{{First: 10, Next: 12}, {First: 13, Next: 60}}), "ms", 7)
	got, err := all(t, mem, b, a)
	if err != nil || len(got) != 100 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	for i, s := range got {
		want := seen{0, int64(i), fmt.Sprintf("p0-%d", i), -1}
		if b.FirstOffset == nil && !a.Keep.Contains(int64(i)) {
			want.time = 1_700_000_000_000_000 + (int64(i)+2)*1_000_000
		}
		if s != want {
			t.Errorf("row %d is %+v, want %+v", i, s, want)
		}
	}
}

func TestIntegersThatAreNoMillisecondsAreRefused(t *testing.T) {
	for _, unit := range []string{"us", "s"} {
		mem := memblob.New()
		in := without(t, mem, "s", modern(0, dense(0, 5)), unit, 10)
		if _, err := all(t, mem, in); err == nil || !strings.Contains(err.Error(), `s, column "kafka_timestamp"`) || !strings.Contains(err.Error(), "no time in milliseconds") {
			t.Errorf("%s: %v", unit, err)
		}
	}
}

func dense(first, next int64) plan.Ranges { return plan.Ranges{{First: first, Next: next}} }

// Rows behind pages that are left out have the offsets that they have, counted or not.
func TestOffsetsBehindPagesThatAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, columns := range [][]string{{source.CapturedColumns.Offset}, nil} {
		mem := memblob.New()
		rows := modern(0, plan.Ranges{{First: 5000, Next: 6000}})
		for i := range rows {
			at := rows[i].Offset * 1_000_000
			rows[i].At = &at
		}
		in := without(t, mem, "a.parquet", rows, "ms", 400, columns...)
		if columns != nil {
			in.FirstOffset = &rows[0].Offset
		}
		in.Keep, in.Rows = plan.Ranges{{First: 5100, Next: 5900}}, 800
		times := &source.Times{Column: "at", From: 5350 * 1_000_000, To: 5450 * 1_000_000}
		r, err := source.OpenTimes(t.Context(), source.Stores{Segments: mem}, []plan.Input{in}, sourcetest.Schema(), source.Layout{Kafka: source.CapturedColumns}, times)
		if err != nil {
			t.Fatal(err)
		}
		got := sourcetest.Drain(t, r)
		if len(got) < 100 || len(got) > 200 {
			t.Errorf("%d rows are read for 100", len(got))
		}
		for _, row := range got {
			want := rows[row.Offset-5000]
			want.Time = 0 // the input owns none of them
			if o := row.Offset; o < 5350 || o >= 5450 {
				want.ID, want.Amount, want.Country = row.ID, row.Amount, row.Country
			}
			if row.String() != want.String() {
				t.Fatalf("a row is\n%v, want\n%v", row, want)
			}
		}
	}
}

// Who owns no row of a row group takes its offsets for what the footer's bounds leave room for; who owns some finds it where they are not that.
func TestOffsetsThatAreNotReadAreHeldAgainstTheColumnByTheirOwner(t *testing.T) {
	t.Parallel()
	mem := memblob.New()
	rows := modern(0, dense(0, 4))
	rows[2].Offset = 1 // so that there are four from 0 to 3, and not each once
	for i := range rows {
		at := int64(i)
		rows[i].At = &at
	}
	in := sourcetest.Input(t, mem, "a.parquet", rows, false, parquetfile.WriterOptions{})
	for _, owned := range []plan.Ranges{nil, dense(3, 4)} {
		in.Owned = owned
		r, err := source.OpenTimes(t.Context(), source.Stores{Segments: mem}, []plan.Input{in}, sourcetest.Schema(), source.Layout{Kafka: source.CapturedColumns},
			&source.Times{Column: "at", From: 0, To: 100})
		if err != nil {
			t.Fatal(err)
		}
		got, err := sourcetest.Read(t, r)
		if owned == nil && (err != nil || len(got) != 4 || got[2].Offset != 2) || owned != nil && (err == nil || !strings.Contains(err.Error(), "offset 1 follows 1")) {
			t.Errorf("owned %v: %v, %v", owned, got, err)
		}
	}
}
