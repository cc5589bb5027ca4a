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

	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
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
	return job.Job{}, nil, notFound(fmt.Sprintf("no job writes a table %q: tables are", name), slices.Compact(names), broken)
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
	schemas, err := Schemas(j, s)
	if err != nil {
		return serve.Result{}, err
	}
	schema := schemas[c.Table]
	store, err := e.Dataset(ctx, s)
	if err != nil {
		return serve.Result{}, err
	}
	out := table.Output{Schema: schema, Partitions: map[string][]table.File{}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(putParallel)
	var mu sync.Mutex
	for name, rows := range partitions {
		label, err := schema.Label(name)
		if err != nil {
			return serve.Result{}, errors.Join(fmt.Errorf("table %s: %w", c.Table, err), g.Wait())
		}
		g.Go(func() error {
			f, err := table.WriteFile(gctx, store, table.Path(c.Name, c.Table, name, 0), schema, label, rows, table.WriteOptions{})
			mu.Lock()
			defer mu.Unlock()
			out.Partitions[name] = []table.File{f}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return serve.Result{}, err
	}
	res, err := serve.Open(store, DatasetName(s), serve.Options{}).Commit(ctx, serve.CommitRequest{
		Name: c.Name, Parent: c.Parent, Code: c.Code, Outputs: map[string]table.Output{c.Table: out}, Request: c.Request,
	})
	return res, swapError(err)
}

// RowsOfFile reads a partition's rows from a Parquet file that has the columns of the
// table's rows; further columns are left out.
func (e *Env) RowsOfFile(name, file string) (Rows, error) {
	j, s, err := e.Table(name)
	if err != nil {
		return nil, err
	}
	schemas, err := Schemas(j, s)
	if err != nil {
		return nil, err
	}
	want := schemas[name].Rows
	var columns []string
	for _, f := range want {
		columns = append(columns, f.Name)
	}
	return func(yield func(*record.Batch, error) bool) {
		f, err := os.Open(file)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			yield(nil, err)
			return
		}
		pf, err := parquetfile.Open(f, info.Size(), file)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, w := range want {
			c, err := pf.Column(w.Name)
			if err == nil && (c.Kind != w.Kind || c.Nullable && !w.Nullable) {
				err = fmt.Errorf("%s: column %s is %v (nullable: %v), the table's is %v (nullable: %v)", file, w.Name, c.Kind, c.Nullable, w.Kind, w.Nullable)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		r := pf.Read(parquetfile.ReadOptions{Columns: columns})
		for {
			b, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(b, err) || err != nil {
				return
			}
		}
	}, nil
}
