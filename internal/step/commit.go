package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/record"
	"hindcast/internal/serve"
	"hindcast/internal/spec"
	"hindcast/internal/table"
)

// Table finds the job that writes a table: the first listed, if there are several.
func (e *Env) Table(name string) (job.Job, *spec.Spec, error) {
	var names []string
	var broken []error
	for _, j := range e.Jobs {
		s, err := Spec(j)
		if err != nil {
			broken = append(broken, err)
			continue
		}
		for _, o := range s.Outputs {
			if o.Table == name {
				return j, s, nil
			}
			names = append(names, o.Table)
		}
	}
	slices.Sort(names)
	return job.Job{}, nil, &Error{Invalid, notFound(fmt.Sprintf("no job writes a table %q: tables are", name), slices.Compact(names), broken)}
}

// DatasetName is what a dataset is called in its manifests: the last part of its location.
func DatasetName(s *spec.Spec) string { return path.Base(strings.TrimRight(s.Dataset, "/")) }

// Rows are a partition's, in key order and in the columns of the table's [table.Schema.Rows].
type Rows = iter.Seq2[*record.Batch, error]

// LiveCommit is what a live writer asks for.
type LiveCommit struct {
	Table string
	// Name identifies the commit: the same name again is the same commit.
	Name string
	// Parent is the version that the writer read before it computed; 0: there was none.
	Parent int64
	// Code is the version of the writer's code.
	Code string
	serve.Request
}

// Commit replaces partitions of a table (by name, as "day=2011-11-30") by a live writer's rows, through the same swap as promotions.
func (e *Env) Commit(ctx context.Context, c LiveCommit, partitions map[string]Rows) (serve.Result, error) {
	j, s, err := e.Table(c.Table)
	if err != nil {
		return serve.Result{}, err
	}
	if err := table.CheckName("live commit", c.Name); err != nil {
		return serve.Result{}, &Error{Invalid, err}
	}
	// Files and versions bear the name as they bear a run's: rolling the run back would find the commit.
	switch _, err := e.runStore(c.Name).Head(ctx, requestKey); {
	case err == nil:
		return serve.Result{}, &Error{Invalid, fmt.Errorf("%s is the name of a run of this workspace: take another for the live commit", c.Name)}
	case !errors.Is(err, blob.ErrNotFound):
		return serve.Result{}, err
	}
	schemas, err := Schemas(j, s)
	if err != nil {
		return serve.Result{}, err
	}
	schema := schemas[c.Table]
	labels := map[string]string{}
	for name := range partitions {
		if labels[name], err = schema.Label(name); err != nil {
			return serve.Result{}, &Error{Invalid, fmt.Errorf("table %s: %w", c.Table, err)}
		}
	}
	store, err := e.Dataset(ctx, s)
	if err != nil {
		return serve.Result{}, err
	}
	if err := hasVersion(ctx, store, c.Parent); err != nil {
		return serve.Result{}, err
	}
	out := table.Output{Schema: schema, Partitions: map[string][]table.File{}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(putParallel)
	var mu sync.Mutex
	for name, rows := range partitions {
		label := labels[name]
		g.Go(func() error {
			rows := ofBucket(s, c.Table, schema, label, rows)
			path := func(n int) string { return table.Path(c.Name, c.Table, name, n) }
			files, err := table.WriteFiles(gctx, store, path, schema, label, rows, table.WriteOptions{Target: targetSize(s, c.Table)})
			mu.Lock()
			defer mu.Unlock()
			out.Partitions[name] = files
			return err
		})
	}
	switch err := g.Wait(); {
	case errors.Is(err, table.ErrOther):
		return serve.Result{}, &Error{Conflict, fmt.Errorf("commit %s: the name was used for other rows: take a new name: %w", c.Name, err)}
	case errors.Is(err, table.ErrRows):
		return serve.Result{}, &Error{Invalid, err}
	case err != nil:
		return serve.Result{}, err
	}
	res, err := serve.Open(store, DatasetName(s), serve.Options{}).Commit(ctx, serve.CommitRequest{
		Name: c.Name, Parent: c.Parent, Code: c.Code, Outputs: map[string]table.Output{c.Table: out}, Request: c.Request,
	})
	return res, swapError(err)
}

// hasVersion refuses a version that there is not, before anything is written under the commit's name; 0 stands for none.
func hasVersion(ctx context.Context, store blob.Store, generation int64) error {
	if generation == 0 {
		return nil
	}
	p, _, err := table.ReadPointer(ctx, store)
	switch {
	case errors.Is(err, table.ErrNoVersion):
		return &Error{Invalid, fmt.Errorf("there is no version %d: %w", generation, err)}
	case err == nil && generation > p.Generation:
		return &Error{Invalid, fmt.Errorf("%w %d: versions 1 to %d exist", table.ErrNoSuchVersion, generation, p.Generation)}
	}
	return err
}

// ofBucket asks of rows that their keys belong to the bucket. Of a table cut by time they do not tell.
func ofBucket(s *spec.Spec, name string, schema table.Schema, label string, rows Rows) Rows {
	if schema.Scheme.ByTime() {
		return rows
	}
	at := slices.IndexFunc(s.Outputs, func(o spec.Output) bool { return o.Table == name })
	column := schema.Rows.Index(s.Outputs[at].BucketColumn)
	return func(yield func(*record.Batch, error) bool) {
		for b, err := range rows {
			for row := 0; err == nil && row < b.Len; row++ {
				text := table.Text(&b.Columns[column], row) // as the engine has it: a string itself, an integer in decimal
				if is := partition.BucketLabel(schema.Scheme.Bucket([]byte(text))); is != label {
					err = &Error{Invalid, fmt.Errorf("a row with %s %q belongs to %s", schema.Rows[column].Name, text, schema.Partition(is))}
				}
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// RowsOfFile reads a partition's rows from a Parquet file that has the columns of the table's rows. Further columns are left
// out, but where the file has the partition's own, as tables' files do, it must be that of the partition.
func (e *Env) RowsOfFile(name, partition, file string) (Rows, error) {
	j, s, err := e.Table(name)
	if err != nil {
		return nil, err
	}
	schemas, err := Schemas(j, s)
	if err != nil {
		return nil, err
	}
	schema := schemas[name]
	label, err := schema.Label(partition)
	if err != nil {
		return nil, &Error{Invalid, fmt.Errorf("table %s: %w", name, err)}
	}
	return func(yield func(*record.Batch, error) bool) {
		err := readRows(file, schema, label, func(b *record.Batch) bool { return yield(b, nil) })
		if err != nil {
			yield(nil, &Error{Invalid, err})
		}
	}, nil
}

// readRows passes a file's rows on until yield is false.
func readRows(file string, schema table.Schema, label string, yield func(*record.Batch) bool) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	pf, err := parquetfile.Open(f, info.Size(), file)
	if err != nil {
		return err
	}
	var columns []string
	for _, w := range schema.Rows {
		c, err := pf.Column(w.Name)
		if err != nil {
			return err
		}
		if c.Kind != w.Kind {
			return fmt.Errorf("%s: column %s holds %v, the table's %v", file, w.Name, c.Kind, w.Kind)
		}
		columns = append(columns, w.Name)
	}
	own, _ := schema.Scheme.Field()
	c, err := pf.Column(own.Name)
	tells := err == nil && c.Kind == own.Kind
	if tells {
		columns = append(columns, own.Name)
	}
	r := pf.Read(parquetfile.ReadOptions{Columns: columns})
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if tells {
			rows := *b
			last := len(b.Columns) - 1
			rows.Columns = b.Columns[:last]
			if err := ofPartition(schema.Scheme, label, &b.Columns[last], b.Len); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			b = &rows
		}
		if !yield(b) {
			return nil
		}
	}
}

// ofPartition asks that the column that tells a row's partition tells this one.
func ofPartition(s partition.Scheme, label string, c *record.Column, rows int) error {
	value, err := s.Value(label)
	if err != nil {
		return err
	}
	for row := range rows {
		text := table.Text(c, row)
		if c.Nulls.Get(row) || c.Kind == record.String && text != label || c.Kind != record.String && c.Int64s[row] != value {
			return fmt.Errorf("it has a row whose %s is %q: it is not of %s", s.Unit, text, s.Dir(label))
		}
	}
	return nil
}
