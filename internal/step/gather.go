package step

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"hindcast/internal/blob"
	"hindcast/internal/check"
	"hindcast/internal/job"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/table"
	"hindcast/internal/transform"
)

// partKey is where a part of a shard leaves what it computed of a partition: a table's file, of partial states where the part is a slice of the log.
func partKey(part, name, dir string) string {
	return "parts/" + part + "/" + name + "/" + dir + ".parquet"
}

// partSchemas are those of the files that parts leave, for tables' schemas. Rows that have a place lack columns.
func partSchemas(j job.Job, c transform.Config, schemas map[string]table.Schema, sliced bool) (map[string]table.Schema, error) {
	out := map[string]table.Schema{}
	for name, s := range schemas {
		if m, ok := j.Outputs()[name].(job.Merger); ok && sliced {
			var err error
			if s.Rows, err = m.Partial(); err != nil {
				return nil, err
			}
		}
		if len(c.Lent) > 0 {
			s.Rows = append(source.Nullable(s.Rows), c.Columns[len(c.Columns)-1])
		}
		out[name] = s
	}
	return out, nil
}

// partError is why what a part left cannot be read: it is computed anew.
type partError struct{ error }

func (e partError) Unwrap() error { return e.error }

// gather makes the files of a divided shard of what its parts left, which are those that the shard would have made of its input. Where it is not ok, that cannot be:
// something is lost or damaged, or an id is in two slices, so that both have taken an event of which only one counts. Then the shard is to be computed whole.
func (l *lap) gather(ctx context.Context, j job.Job, c transform.Config, schemas map[string]table.Schema) (res transform.Result, ok bool, err error) {
	defer func() {
		var part partError
		if errors.As(err, &part) && !passing(err) {
			l.whole, err = part.Error(), nil
		}
	}()
	parts, gone, err := l.env.results(ctx, l.request.Run, l.shard.Parts)
	if err == nil && gone != nil {
		err = partError{fmt.Errorf("what %s left is lost", strings.Join(gone, ", "))}
	}
	if err != nil {
		return res, false, err
	}
	var results []transform.Result
	for _, p := range parts {
		results = append(results, p.Result)
	}
	if res, ok = transform.Gather(l.shard.Tables, results, l.shard.ByKey); !ok {
		return res, false, partError{errors.New("so many events were dead letters that it cannot be told how many there were")}
	}
	if res.Fingerprints, err = l.gatherIDs(ctx, c, parts); err != nil {
		return res, false, err
	}
	sink := l.sinks(ctx, schemas)
	err = l.merge(ctx, j, c, schemas, parts, sink)
	if werr := l.writes.Wait(); werr != nil {
		err = werr
	}
	return res, err == nil, err
}

var errShared = partError{errors.New("an event's id is in two slices of the log")}

// gatherIDs leaves the ids of the parts for the shard, and returns how many it left; and it sees that slices have none in common.
func (l *lap) gatherIDs(ctx context.Context, c transform.Config, parts []finished) (n int64, err error) {
	switch {
	case c.ID == "" || l.shard.ByKey && l.shard.Alone:
		return 0, nil
	case l.shard.ByKey:
		parts = parts[:1] // all saw the same
	}
	var ids []check.ShardIDs
	for _, p := range parts {
		ids = append(ids, check.ShardIDs{Shard: p.Shard, Open: l.env.fingerprints(l.request.Run, p)})
		n += p.Result.Fingerprints
	}
	var out scratchFile
	defer out.remove()
	switch shared, err := check.GatherIDs(ctx, ids, &out); {
	case err != nil:
		return 0, partError{err}
	case shared:
		return 0, errShared
	case !l.shard.tellsIDs():
		return 0, nil
	}
	return n, out.put(ctx, l.store, fingerprintsKey(l.shard.ID))
}

// merge passes on the rows of all partitions.
func (l *lap) merge(ctx context.Context, j job.Job, c transform.Config, schemas map[string]table.Schema, parts []finished, sink transform.Sink) error {
	left, err := partSchemas(j, c, schemas, !l.shard.ByKey)
	if err != nil {
		return err
	}
	for _, name := range l.shard.Tables {
		for _, slot := range l.shard.Slots {
			dir := l.shard.Scheme.Dir(slot.Label)
			var files []table.File
			for _, p := range parts {
				files = append(files, p.Files[name][dir]...)
			}
			if len(files) == 0 {
				continue
			}
			rows := scanParts(ctx, l.store, left[name], dir, files)
			if m, ok := j.Outputs()[name].(job.Merger); ok && !l.shard.ByKey {
				rows = m.Combine(rows)
			}
			if err := sink(name, slot.Label, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

var errEnough = errors.New("no more rows are wanted")

// scanParts yields the rows of a partition that parts left, without the partition's column: by key, and for one key in the order of the files.
func scanParts(ctx context.Context, store blob.Store, s table.Schema, dir string, files []table.File) iter.Seq2[*record.Batch, error] {
	skip := len(s.Columns()) - len(s.Rows)
	return func(yield func(*record.Batch, error) bool) {
		err := table.ScanFiles(ctx, store, s, dir, files, table.ScanOptions{}, func(b *record.Batch) error {
			rows := *b
			rows.Columns = b.Columns[skip:]
			if !yield(&rows, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, partError{err})
		}
	}
}
