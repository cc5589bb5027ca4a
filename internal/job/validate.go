package job

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// Validate reports, all at once, what is wrong with a job that could be known before it runs. Each error names a table, and where
// it has one, the struct field and its tag.
func Validate(j Job, s *spec.Spec) error {
	var errs []error
	named := map[string]bool{}
	for _, o := range s.Outputs {
		named[o.Table] = true
		if err := validateOutput(j, o); err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", o.Table, err))
		}
	}
	for _, table := range slices.Sorted(maps.Keys(j.outputs)) {
		if !named[table] {
			errs = append(errs, fmt.Errorf("table %s: the job's code has a transform for it, but job.yaml does not name it among its outputs", table))
		}
	}
	for _, name := range s.Checks.Canaries {
		if _, err := fs.Stat(j.Files(), name); err != nil {
			errs = append(errs, fmt.Errorf("canaries %s: the file is not among the job's: write it, and name it in the go:embed line", name))
		}
	}
	if len(errs) == 0 { // otherwise it would repeat them
		_, err := Columns(s, j.outputs)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("job %s: %w", s.Job, err)
	}
	return nil
}

func validateOutput(j Job, o spec.Output) error {
	t := j.outputs[o.Table]
	if t == nil {
		return fmt.Errorf("job.yaml names it, but the job's code has no transform for it: it has %s", orNone(slices.Sorted(maps.Keys(j.outputs))))
	}
	shape, err := t.Shape()
	if err != nil {
		return err
	}
	if o.ByTime() {
		if f, ok := o.Scheme.Field(); ok && shape.Rows.Index(f.Name) >= 0 {
			return fmt.Errorf("its rows have a column %s, which is the name of its partition column: rename it", f.Name)
		}
		return nil
	}
	i := shape.Rows.Index(o.BucketColumn)
	if i < 0 || i >= shape.Keys {
		return fmt.Errorf("it is cut by bucket of %s, which is no key column of its rows: they have %s",
			o.BucketColumn, orNone(names(shape.Rows[:shape.Keys])))
	}
	if k := shape.Rows[i].Kind; k != record.String && k != record.Int64 {
		return fmt.Errorf("it is cut by bucket of %s, a %s: use a string or an integer", o.BucketColumn, k)
	}
	return nil
}

// Columns returns the columns that the transforms of a job read, each once: event time and, where it dedupes, id first. All
// are nullable: what a null means is for the engine to say, record by record.
func Columns(s *spec.Spec, outputs Outputs) (record.Schema, error) {
	event, kafka := s.Source.Event, s.Source.Segments.Columns
	out := record.Schema{{Name: event.Time, Kind: record.Timestamp, Nullable: true}}
	by := map[string]string{event.Time: "source.event.time"}
	add := func(f record.Field, who string) error {
		switch f.Name {
		case kafka.Partition, kafka.Offset, kafka.Time:
			return fmt.Errorf("%s reads column %s, which belongs to the log, not the event: a result must not depend on it", who, f.Name)
		}
		if i := out.Index(f.Name); i >= 0 {
			if out[i].Kind != f.Kind {
				return fmt.Errorf("column %s is %s for %s, but %s for %s", f.Name, out[i].Kind, by[f.Name], f.Kind, who)
			}
			return nil
		}
		by[f.Name] = who
		out = append(out, record.Field{Name: f.Name, Kind: f.Kind, Nullable: true})
		return nil
	}
	if event.Dedupe {
		out = append(out, record.Field{Name: event.ID, Kind: idKind(event.ID, outputs), Nullable: true})
		by[event.ID] = "source.event.id"
	}
	var errs []error
	for _, o := range s.Outputs {
		if outputs[o.Table] == nil {
			errs = append(errs, fmt.Errorf("table %s has no transform", o.Table))
			continue
		}
		shape, err := outputs[o.Table].Shape()
		if err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", o.Table, err))
			continue
		}
		for _, f := range shape.Events {
			if err := add(f, "table "+o.Table); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return out, errors.Join(errs...)
}

// Needs returns the columns of [Columns], nullable where an event may lack them: where a transform reads them into a pointer. Those that
// date and identify an event it must have.
func Needs(s *spec.Spec, outputs Outputs) (record.Schema, error) {
	columns, err := Columns(s, outputs)
	if err != nil {
		return nil, err
	}
	event := s.Source.Event
	for i := range columns {
		f := &columns[i]
		f.Nullable = false
		if f.Name == event.Time || f.Name == event.ID && event.Dedupe {
			continue
		}
		for _, o := range s.Outputs {
			shape, err := outputs[o.Table].Shape()
			if err != nil {
				return nil, fmt.Errorf("table %s: %w", o.Table, err)
			}
			f.Nullable = f.Nullable || slices.ContainsFunc(shape.Events, func(g record.Field) bool { return g.Name == f.Name && g.Nullable })
		}
	}
	return columns, nil
}

// idKind is that of the event id where a transform reads it as an integer, else a string.
func idKind(id string, outputs Outputs) record.Kind {
	for _, t := range outputs {
		shape, err := t.Shape()
		if err != nil {
			continue
		}
		if i := shape.Events.Index(id); i >= 0 && shape.Events[i].Kind == record.Int64 {
			return record.Int64
		}
	}
	return record.String
}

func names(s record.Schema) []string {
	var out []string
	for _, f := range s {
		out = append(out, f.Name)
	}
	return out
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
