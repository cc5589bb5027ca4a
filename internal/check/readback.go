package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/record"
	"hindcast/internal/table"
)

// readBack is what came of reading the whole candidate, once, as readers will read it: every file's checksum, rows, columns,
// order and partition are held against the manifest by [table.Snapshot.ScanPartition].
type readBack struct {
	files, rows, bytes int64
	damaged            []string
	// repeated are keys that stand twice in a table cut by key.
	repeated    []string
	repeatCount int64
	byKey       bool // there is such a table
}

// readParallel is how many partitions are read at a time.
const readParallel = 4

// readCandidate reads the candidate back and shows its rows to the canaries. The error is one of the store or the context; damage is no error.
func readCandidate(ctx context.Context, in Inputs, book *canaryBook) (readBack, error) {
	s, err := table.OpenCandidate(in.Dataset, in.Base, in.Candidate)
	if err != nil {
		return readBack{}, err
	}
	var back readBack
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(readParallel)
	for _, name := range slices.Sorted(maps.Keys(in.Candidate.Tables)) {
		change := in.Candidate.Tables[name]
		back.byKey = back.byKey || !change.Schema.Scheme.ByTime()
		for label, p := range change.Partitions {
			for _, f := range p.Files {
				back.files++
				back.rows += f.Rows
				back.bytes += int64(f.Bytes)
			}
			if len(p.Files) == 0 {
				continue
			}
			g.Go(func() error {
				keys := &keyWatch{table: name, partition: label, schema: change.Schema}
				known := book.in(name, label)
				err := s.ScanPartition(gctx, name, label, table.ScanOptions{Found: in.Found}, func(b *record.Batch) error {
					keys.look(b)
					known.look(b)
					return nil
				})
				if err != nil && (blob.IsTransient(err) || gctx.Err() != nil) {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					back.damaged = append(back.damaged, err.Error())
				}
				back.repeated = append(back.repeated, keys.repeated...)
				back.repeatCount += keys.count
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return readBack{}, err
	}
	// In whatever order they were read.
	slices.Sort(back.damaged)
	slices.Sort(back.repeated)
	return back, nil
}

// keyWatch finds keys that stand twice in a partition of a table cut by key. Rows come sorted.
type keyWatch struct {
	table, partition string
	schema           table.Schema
	last             []byte
	any              bool
	repeated         []string
	count            int64
}

func (w *keyWatch) look(b *record.Batch) {
	if w.schema.Scheme.ByTime() || w.schema.Keys == 0 {
		return
	}
	var key []byte
	for i := range b.Len {
		key = appendKey(key[:0], b.Columns[:w.schema.Keys], i)
		if w.any && string(key) == string(w.last) {
			if w.count++; w.count <= MaxFindings {
				w.repeated = append(w.repeated, fmt.Sprintf("%s %s has the key %s more than once", w.table, w.partition, showKey(w.schema, b, i)))
			}
		}
		w.last, w.any = append(w.last[:0], key...), true
	}
}

func showKey(s table.Schema, b *record.Batch, i int) string {
	var out []string
	for c := range s.Keys {
		out = append(out, s.Rows[c].Name+"="+table.Text(&b.Columns[c], i))
	}
	return strings.Join(out, " ")
}

// files asks that the candidate's files can be read, and are what the run says that it wrote.
func files(_ context.Context, e *evidence) (Result, error) {
	r := Result{Status: OK, Figures: map[string]int64{"files": e.back.files, "rows": e.back.rows, "bytes": e.back.bytes}}
	r.Summary = fmt.Sprintf("%s files with %s rows were read back and are what was written.", count(e.back.files), count(e.back.rows))
	for _, d := range e.back.damaged {
		r.find("%s", d)
	}
	if r.Total > 0 {
		r.Status = Fail
		r.Summary = fmt.Sprintf("%s partitions cannot be read back as they were written.", count(r.Total))
		r.Do = "Something changed the run's files. Find out what writes there, and start a new run."
	}
	return r, nil
}

// keys asks that a key stands once in a table cut by key. A shard is a topic partition, so a key
// that stands twice came from two of them: each has half of its state.
func keys(_ context.Context, e *evidence) (Result, error) {
	if !e.back.byKey {
		return Result{Status: NotApplicable, Summary: "No table is cut by key."}, nil
	}
	if e.Partial {
		return Result{Status: NotApplicable, Summary: "Tables cut by key are whole when all shards are done."}, nil
	}
	r := Result{Status: OK, Summary: "Every key stands once.", Total: e.back.repeatCount}
	r.Findings = e.back.repeated[:min(len(e.back.repeated), MaxFindings)]
	if r.Total > 0 {
		r.Status = Fail
		r.Summary = fmt.Sprintf("%s rows have a key that another row has: the events of a key lie in more than one topic partition.", count(r.Total))
		r.Do = "Cut the table by a key that the topic is partitioned by."
	}
	return r, nil
}
