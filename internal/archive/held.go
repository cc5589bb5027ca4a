package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/parquetsrc"
)

// footers is how many are read at a time.
const footers = 16

// segment is one that was archived before.
type segment struct {
	plan.Range
	key       string
	partition int32
	epoch     int32
	file      *parquetfile.File
}

// held reads what the archive has, by partition, in the order of offsets, and proves that it is the beginning of what this call would write: of
// the same topic and with the same columns, without a hole.
func (a *archiver) held(ctx context.Context) (map[int32][]segment, error) {
	var objects []blob.Info
	for info, err := range blob.All(ctx, a.Store, a.dir()) {
		if err != nil {
			return nil, fmt.Errorf("list the archive: %w", err)
		}
		if base := path.Base(info.Key); strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".") {
			continue
		}
		objects = append(objects, info)
	}
	segments := make([]segment, len(objects))
	errs := make([]error, len(objects))
	var g errgroup.Group
	g.SetLimit(footers)
	for i, o := range objects {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				segments[i], errs[i] = a.read(ctx, o)
			}
			return nil
		})
	}
	_ = g.Wait() // errs has them all, in the order of the keys
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	slices.SortFunc(segments, func(x, y segment) int {
		return cmp.Or(cmp.Compare(x.partition, y.partition), cmp.Compare(x.First, y.First), cmp.Compare(x.Next, y.Next))
	})
	out := map[int32][]segment{}
	for _, s := range segments {
		of := out[s.partition]
		if int(s.partition) >= len(a.Tails) {
			return nil, fmt.Errorf("segment %s is of partition %d, but the topic has %d partitions: it was deleted and created again, or is another: archive to another location: %w",
				s.key, s.partition, len(a.Tails), ErrRefused)
		}
		if n := len(of); n > 0 {
			switch last := of[n-1]; {
			case s.First > last.Next:
				return nil, fmt.Errorf("the archive has no segment of partition %d, offsets %d-%d, between %s and %s: restore it, or archive to another location: %w",
					s.partition, last.Next, s.First, last.key, s.key, ErrRefused)
			case s.Next <= last.Next:
				continue // two calls at once may have written the same offsets under two keys
			}
		}
		out[s.partition] = append(of, s)
	}
	for _, of := range out {
		last := of[len(of)-1]
		if err := last.verify(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read opens a segment and compares it with what this call would write.
func (a *archiver) read(ctx context.Context, o blob.Info) (segment, error) {
	s := segment{key: o.Key}
	refuse := func(format string, args ...any) (segment, error) {
		return segment{}, fmt.Errorf("%s %s: %w", o.Key, fmt.Sprintf(format, args...), ErrRefused)
	}
	f, err := parquetfile.Open(blob.ReaderAt(ctx, a.Store, o), o.Size, o.Key)
	if damage, ok := errors.AsType[*parquetfile.Error](err); ok && damage.Err == nil {
		return segment{}, fmt.Errorf("%w: restore it, or archive to another location: %w", err, ErrRefused)
	}
	if err != nil {
		return segment{}, err
	}
	s.file = f
	noted, ok := f.KeyValue(parquetsrc.RangeKey)
	if !ok {
		return refuse("is no segment of an archive: its footer does not say which offsets were copied; archive to another location")
	}
	if s.Range, err = plan.ParseRange(noted); err != nil {
		return refuse("has a damaged footer: %v", err)
	}
	epoch, _ := f.KeyValue(parquetsrc.EpochKey)
	if n, err := strconv.ParseInt(epoch, 10, 32); err == nil {
		s.epoch = int32(n)
	} else {
		return refuse("has a damaged footer: the leader's epoch is %q", epoch)
	}
	var first int64
	n, err := fmt.Sscanf(strings.TrimPrefix(o.Key, a.dir()), "partition=%d/"+strings.ReplaceAll(a.Topic, "%", "%%")+"+%d+%d.parquet", &s.partition, new(int32), &first)
	if err != nil || n != 3 || o.Key != a.key(s.partition, first) || !s.Contains(first) {
		return refuse("has a name that does not fit the offsets %s that it holds: it was renamed or copied; put it back", s.Range)
	}
	if topic, _ := f.KeyValue(parquetsrc.TopicKey); topic != a.Topic {
		return refuse("is of the topic %s", topic)
	}
	if id, _ := f.KeyValue(parquetsrc.TopicIDKey); id != a.TopicID {
		return refuse("was copied of a topic %s with the id %q, which the brokers have with the id %q: the topic was deleted and created again, and its offsets are others; archive to another location",
			a.Topic, id, a.TopicID)
	}
	if got, want := f.Schema(), a.Columns.Schema(); !got.Equal(want) {
		return refuse("has the columns %s, where this call writes %s: call as before (with or without --job), or archive to another location", names(got), names(want))
	}
	return s, nil
}

func names(s record.Schema) string {
	list := make([]string, len(s))
	for i, f := range s {
		list[i] = fmt.Sprintf("%s (%v)", f.Name, f.Kind)
	}
	return strings.Join(list, ", ")
}

// verify reads the offsets of the last segment of a partition: what follows is appended to them.
func (s *segment) verify(ctx context.Context) error {
	cols := source.CapturedColumns
	in := s.file.Read(parquetfile.ReadOptions{Columns: []string{cols.Partition, cols.Offset}})
	last := s.First - 1
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for row := range b.Len {
			o := b.Columns[1].Int64s[row]
			if b.Columns[0].Int64s[row] != int64(s.partition) || o <= last || o >= s.Next {
				return fmt.Errorf("%s has a record of partition %d with the offset %d after %d: it is damaged; restore it, or archive to another location: %w",
					s.key, b.Columns[0].Int64s[row], o, last, ErrRefused)
			}
			last = o
		}
	}
}
