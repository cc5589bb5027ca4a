package transform

import (
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"

	"hindcast/internal/record"
)

// Sighting is an event of a shard, found by its id's fingerprint.
type Sighting struct {
	Fingerprint uint64
	Position

	id       string
	content  content
	columns  record.Schema
	idColumn int
}

// Conflict reports whether two sightings are one id with two contents. Fingerprints may be equal by chance, and copies are no conflict.
func (s Sighting) Conflict(o Sighting) (Conflict, bool) {
	if s.id != o.id || s.content == o.content {
		return Conflict{}, false
	}
	if o.Partition < s.Partition || o.Partition == s.Partition && o.Offset < s.Offset {
		s, o = o, s
	}
	c := Conflict{ID: s.id, First: s.Position, Second: o.Position}
	if i := differing(s.content, o.content, len(s.columns), s.idColumn); i >= 0 {
		c.Column = s.columns[i].Name
	}
	return c, true
}

// Locate reads a shard again, for the events whose ids have the given fingerprints: of each id the first, as [Run] takes it.
// Of c it needs what [ForShard] sets. It closes r.
func Locate(ctx context.Context, r Reader, c Config, fingerprints []uint64) (found []Sighting, err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	c.Outputs, c.Rows = nil, 0
	c.Sink = func(string, string, iter.Seq2[*record.Batch, error]) error { return nil }
	e, err := newEngine(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if e.id < 0 {
		return nil, errors.New("events without an id cannot be found by it")
	}
	want := make(map[uint64]bool, len(fingerprints))
	for _, f := range fingerprints {
		want[f] = true
	}
	met := map[string]bool{}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		partition, b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if err := e.check(partition, b); err != nil {
			return nil, err
		}
		e.sort(&run{partition: partition}, b, 0, b.Len)
		ids := &b.Columns[e.id]
		e.ids.of(ids, e.rows)
		hits, hashes := e.rows[:0], e.ids.hashes[:0]
		for n, row := range e.rows {
			if e.ids.kinds[n] == idNone || !want[e.ids.hashes[n]] {
				continue
			}
			if id := e.idOf(ids, int(row)); !met[string(id)] {
				met[string(id)] = true
				hits, hashes = append(hits, row), append(hashes, e.ids.hashes[n])
			}
		}
		for n, of := range e.contents.of(b, len(c.Columns), e.id, hits) {
			row := hits[n]
			found = append(found, Sighting{
				Fingerprint: hashes[n], Position: Position{partition, b.Offsets[row]},
				id: idText(ids, row), content: content(of), columns: c.Columns, idColumn: e.id,
			})
		}
	}
}

// idText writes an id for people.
func idText(ids *record.Column, row int32) string {
	if ids.Kind == record.String {
		return strings.ToValidUTF8(string(ids.Strings.At(int(row))), "\uFFFD")
	}
	return strconv.FormatInt(ids.Int64s[row], 10)
}
