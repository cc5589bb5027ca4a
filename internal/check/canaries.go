package check

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hindcast/internal/partition"
	"hindcast/internal/record"
	"hindcast/internal/table"
)

// A canary file is CSV with a header of columns of one table, as [table.Cat] writes them; a first column "table" says
// for each row which table it belongs to. The key columns, and the partition's, find the row. Every other cell that is not empty must be equal.

// canary is one row of a canary file.
type canary struct {
	at        string // file:line
	table     string
	partition string // "" in a table cut by key
	name      string // the key, for people
	cells     []cell
	found     bool
	wrong     string // how the row that was found differs; empty if one was right
}

// cell is a value that is known.
type cell struct {
	column int // in the table's columns
	name   string
	want   string
}

// place is a partition of a table; the partition is "" for all of a table cut by key.
type place struct{ table, partition string }

// canaryBook is all canaries, by where they belong and by key.
type canaryBook struct {
	candidate *table.Candidate
	partial   bool
	mu        sync.Mutex
	by        map[place]map[string][]*canary
	all       []*canary
	outside   int64
	bad       []string // what is wrong with the files
}

func readCanaries(in Inputs) *canaryBook {
	book := &canaryBook{candidate: in.Candidate, partial: in.Partial, by: map[place]map[string][]*canary{}}
	for _, f := range in.Canaries {
		book.read(f)
	}
	return book
}

func (k *canaryBook) refuse(at, format string, args ...any) {
	k.bad = append(k.bad, at+": "+fmt.Sprintf(format, args...))
}

func (k *canaryBook) read(f Canaries) {
	r := csv.NewReader(strings.NewReader(f.Data))
	header, err := r.Read()
	if err != nil {
		k.refuse(f.Name, "it has no header: %v", err)
		return
	}
	named := header[0] == "table"
	columns := header
	var only string
	if named {
		columns = header[1:]
	} else if only = k.tableOf(f.Name, header); only == "" {
		return
	}
	for {
		row, err := r.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			k.refuse(f.Name, "%v", err)
			return
		}
		line, _ := r.FieldPos(0)
		at := fmt.Sprintf("%s:%d", f.Name, line)
		name := only
		if named {
			name, row = row[0], row[1:]
		}
		k.add(at, name, columns, row)
	}
}

// tableOf finds the one table that has the columns of a header.
func (k *canaryBook) tableOf(file string, header []string) string {
	var fits []string
	names := slices.Sorted(maps.Keys(k.candidate.Tables))
	for _, name := range names {
		columns := k.candidate.Tables[name].Schema.Columns()
		if !slices.ContainsFunc(header, func(h string) bool { return columns.Index(h) < 0 }) {
			fits = append(fits, name)
		}
	}
	if len(fits) == 1 {
		return fits[0]
	}
	k.refuse(file, "its header fits %d of the tables %s: name columns of one, or put a column \"table\" first", len(fits), strings.Join(names, ", "))
	return ""
}

// add puts a row in the book, or says what is wrong with it.
func (k *canaryBook) add(at, name string, header, row []string) {
	change, ok := k.candidate.Tables[name]
	if !ok {
		k.refuse(at, "the run has no table %q", name)
		return
	}
	schema := change.Schema
	columns := schema.Columns()
	keys := len(columns) - len(schema.Rows) + schema.Keys
	c := &canary{at: at, table: name}
	found := make([]string, keys) // the texts of the key columns
	have := make([]bool, keys)
	for i, h := range header {
		col := columns.Index(h)
		switch {
		case col < 0 && row[i] == "":
			continue // a column of another table
		case col < 0:
			k.refuse(at, "table %s has no column %q", name, h)
			return
		case row[i] == "" && (col >= keys || columns[col].Kind != record.String):
			continue // not known
		}
		want, err := canonical(columns[col].Kind, row[i])
		if err != nil {
			k.refuse(at, "column %s: %v", h, err)
			return
		}
		if col < keys {
			found[col], have[col] = want, true
		} else {
			c.cells = append(c.cells, cell{col, h, want})
		}
	}
	if i := slices.Index(have, false); i >= 0 {
		k.refuse(at, "the key column %s has no value: without it no row of %s is found", columns[i].Name, name)
		return
	}
	for i, f := range columns[:keys] {
		c.name += fmt.Sprintf(" %s=%s", f.Name, found[i])
	}
	if schema.Scheme.ByTime() {
		label, err := labelOf(schema.Scheme, found[0])
		if err != nil {
			k.refuse(at, "column %s: %v", columns[0].Name, err)
			return
		}
		c.partition = schema.Partition(label)
		if _, ok := change.Partitions[c.partition]; !ok {
			k.outside++
			return
		}
		found = found[1:]
	} else if k.partial {
		k.outside++
		return
	}
	var key []byte
	for _, text := range found {
		key = appendText(key, text)
	}
	p := place{name, c.partition}
	if k.by[p] == nil {
		k.by[p] = map[string][]*canary{}
	}
	k.by[p][string(key)] = append(k.by[p][string(key)], c)
	k.all = append(k.all, c)
}

// labelOf is the label of the partition whose column has a value.
func labelOf(s partition.Scheme, value string) (string, error) {
	if s.Unit != partition.Hour {
		_, err := s.Parse(value)
		return value, err
	}
	t, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return "", err
	}
	slot, err := s.Slot(t.UnixMicro())
	if err == nil && slot.From != t.UnixMicro() {
		err = fmt.Errorf("%s is not the start of an hour in %s", value, s.Zone)
	}
	return slot.Label, err
}

// canonical reads a value and writes it as [table.Text] does.
func canonical(kind record.Kind, s string) (string, error) {
	c := record.Column{Kind: kind}
	switch kind {
	case record.String:
		return s, nil
	case record.Bool:
		v, err := strconv.ParseBool(s)
		if err != nil {
			return "", fmt.Errorf("%q is neither true nor false", s)
		}
		c.Int64s = []int64{0}
		if v {
			c.Int64s[0] = 1
		}
	case record.Int64:
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%q is no integer of 64 bits", s)
		}
		c.Int64s = []int64{v}
	case record.Float64:
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return "", fmt.Errorf("%q is no number", s)
		}
		c.Float64s = []float64{v}
	case record.Timestamp:
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || !t.Equal(t.Truncate(time.Microsecond)) {
			return "", fmt.Errorf("%q is no RFC 3339 time in microseconds or coarser, as 2011-11-01T09:00:00Z", s)
		}
		c.Int64s = []int64{t.UnixMicro()}
	case record.Date:
		t, err := time.Parse(time.DateOnly, s)
		if err != nil {
			return "", fmt.Errorf("%q is no date, as 2011-11-01", s)
		}
		c.Int64s = []int64{t.Unix() / (24 * 60 * 60)}
	default:
		return "", fmt.Errorf("values of %v cannot be compared", kind)
	}
	return table.Text(&c, 0), nil
}

// appendKey writes a row's key so that no two keys look alike.
func appendKey(b []byte, columns []record.Column, i int) []byte {
	for c := range columns {
		b = appendText(b, table.Text(&columns[c], i))
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// canaryWatch holds the rows of one partition against its canaries.
type canaryWatch struct {
	book   *canaryBook
	by     map[string][]*canary
	schema table.Schema
}

// in gives the canaries of a partition.
func (k *canaryBook) in(name, label string) canaryWatch {
	schema := k.candidate.Tables[name].Schema
	if !schema.Scheme.ByTime() {
		label = ""
	}
	return canaryWatch{k, k.by[place{name, label}], schema}
}

func (w canaryWatch) look(b *record.Batch) {
	if len(w.by) == 0 {
		return
	}
	skip := len(b.Columns) - len(w.schema.Rows)
	var key []byte
	for i := range b.Len {
		key = appendKey(key[:0], b.Columns[skip:skip+w.schema.Keys], i)
		for _, c := range w.by[string(key)] {
			w.book.compare(c, b, i)
		}
	}
}

// compare holds a row against a canary of its key. Where several rows have the key, one must be right.
func (k *canaryBook) compare(c *canary, b *record.Batch, i int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.found && c.wrong == "" {
		return
	}
	c.found, c.wrong = true, ""
	for _, cell := range c.cells {
		col := &b.Columns[cell.column]
		got := table.Text(col, i)
		if null := col.Nulls.Get(i); null || got != cell.want {
			if null {
				got = "null"
			}
			c.wrong = fmt.Sprintf("%s is %s, expected %s", cell.name, got, cell.want)
			return
		}
	}
}

// canaries asks that the rows whose values are known have those values.
func canaries(_ context.Context, e *evidence) (Result, error) {
	k := e.canaries
	r := Result{Status: OK}
	if len(e.Canaries) == 0 {
		return Result{Status: NotApplicable, Summary: "The job has no canaries."}, nil
	}
	for _, bad := range k.bad {
		r.find("%s", bad)
	}
	var right, wrong int64
	for _, c := range k.all {
		switch {
		case !c.found:
			wrong++
			r.find("%s: %s has no row with%s", c.at, c.table, c.name)
		case c.wrong != "":
			wrong++
			r.find("%s: %s,%s: %s", c.at, c.table, c.name, c.wrong)
		default:
			right++
		}
	}
	r.Figures = map[string]int64{"right": right, "wrong": wrong, "outside": k.outside, "unusable": int64(len(k.bad))}
	outside := ""
	if k.outside > 0 {
		outside = fmt.Sprintf(" %s are outside the window.", count(k.outside))
		if k.partial {
			outside = fmt.Sprintf(" %s are of partitions that are not whole yet.", count(k.outside))
		}
	}
	switch {
	case len(k.bad) > 0:
		r.Status = Fail
		r.Summary = fmt.Sprintf("%s canaries cannot be used, %s are wrong, %s right.%s", count(int64(len(k.bad))), count(wrong), count(right), outside)
		r.Do = "Correct the canary file and start a new run."
	case wrong > 0:
		r.Status = Fail
		r.Summary = fmt.Sprintf("%s of %s canaries are wrong.%s", count(wrong), count(wrong+right), outside)
		r.Do = "Either the job or the canary is wrong. Correct it and start a new run."
	case right == 0:
		r.Status = Warn
		r.Summary = "No canary could be looked at." + outside
		r.Do = "Add a canary for the window: a row whose right values you know from elsewhere."
	default:
		r.Summary = fmt.Sprintf("%s canaries are right.%s", count(right), outside)
	}
	return r, nil
}
