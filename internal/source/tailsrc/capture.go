package tailsrc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
)

// Records are the committed records of a range of one partition.
type Records interface {
	// Next returns the next records, ascending, or io.EOF once the range has been read.
	Next(ctx context.Context) ([]*kgo.Record, error)
	// Covered is the offset before which all records have been returned.
	Covered() int64
}

// CaptureOptions say what to capture, and where to. Those that say "0 means" may be left out.
type CaptureOptions struct {
	// Read, where set, begins to read the offsets [from, To) from elsewhere than the brokers, which are then left alone: Brokers, TopicID, Pinned,
	// Partitions and Patience are not needed. An attempt after a failure reads all of the range again.
	Read func(ctx context.Context, from int64) (Records, error)

	ReadOptions

	// Schema has the event's columns, by the names of the values' members.
	Schema record.Schema
	// EventTime is the column of Schema that says when the event happened.
	EventTime string
	// Payload says how values are decoded.
	Payload payload.Options

	// Store and Prefix are where the segments go.
	Store  blob.Store
	Prefix string

	// RecordsPerSecond throttles; 0 means no limit. It is about the records that the brokers send, on average.
	RecordsPerSecond int
	// SegmentRows is the number of rows at which a segment ends, and RowGroupRows a row group; 0 means
	// DefaultSegmentRows and DefaultRowGroupRows. Like all but the throttle they must not change between two attempts.
	SegmentRows, RowGroupRows int
}

// The sizes of captured segments.
const (
	DefaultSegmentRows  = 100_000
	DefaultRowGroupRows = 10_000
	// segmentBytes is the size of values at which a segment ends early: it is built in memory.
	segmentBytes = 64 << 20
)

// Capture copies the committed records of [From, To) of one partition into segments and returns them, ascending.
// They tile the range, as [plan.Segment] says; a range without a record gives one segment without rows.
//
//	<prefix>/partition=P/<topic>+P+OFFSET.parquet
//
// The columns are [source.CapturedColumns], those of Schema, all nullable, and [source.ErrorColumn], which is null where the value was
// read. A value that cannot be read exactly is a row of nulls whose error says why.
//
// Capturing again after a failure writes the same objects, whoever else does the same: it reads the segments that are there and
// asks the brokers for the rest only. ErrChanged means that the range is no longer what was pinned; a segment with other
// contents than the brokers now give is an error.
func Capture(ctx context.Context, opts CaptureOptions) ([]plan.Segment, error) {
	c, err := newCapture(opts)
	if err == nil {
		err = c.run(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("capture %s, partition %d, offsets %d-%d: %w", opts.Topic, opts.Partition, opts.From, opts.To, opts.Brokers.Explain(err))
	}
	return c.segments, nil
}

type capture struct {
	CaptureOptions
	limit    *rate.Limiter // nil: none
	schema   record.Schema
	decoder  *payload.Decoder
	rows     *rows
	segments []plan.Segment // the last one's Next is settled when there is a record after it, or none
}

func newCapture(opts CaptureOptions) (*capture, error) {
	opts.SegmentRows = cmp.Or(opts.SegmentRows, DefaultSegmentRows)
	opts.RowGroupRows = cmp.Or(opts.RowGroupRows, DefaultRowGroupRows)
	opts.Patience = cmp.Or(opts.Patience, DefaultPatience)
	c := &capture{CaptureOptions: opts}
	switch i := opts.Schema.Index(opts.EventTime); {
	case opts.From < 0 || opts.From > opts.To:
		return nil, errors.New("this is no range of offsets")
	case opts.SegmentRows < 0 || opts.RowGroupRows < 0 || opts.RecordsPerSecond < 0:
		return nil, errors.New("a size or rate is negative")
	case opts.EventTime != "" && (i < 0 || opts.Schema[i].Kind != record.Timestamp):
		return nil, fmt.Errorf("the event time %q is no timestamp column of the event", opts.EventTime)
	}
	if opts.RecordsPerSecond > 0 {
		c.limit = rate.NewLimiter(rate.Limit(opts.RecordsPerSecond), opts.RecordsPerSecond)
	}
	var err error
	if c.schema, err = captured(opts.Schema); err != nil {
		return nil, err
	}
	if c.decoder, err = payload.New(opts.Schema, opts.Payload); err != nil {
		return nil, err
	}
	c.rows = newRows(c.schema, opts.Partition, c.decoder)
	return c, nil
}

func (c *capture) run(ctx context.Context) error {
	if c.From == c.To {
		return nil
	}
	if c.Read == nil {
		pos, err := c.resume(ctx)
		if err != nil {
			return err
		}
		return c.fromBrokers(ctx, pos)
	}
	// What an attempt wrote that ended with an error is not trusted: that a record must not be seen may show at its transaction's end only.
	in, err := c.Read(ctx, c.From)
	if err != nil {
		return err
	}
	if err := c.copy(ctx, in); err != nil {
		return err
	}
	c.settle(c.To)
	return nil
}

func (c *capture) fromBrokers(ctx context.Context, pos int64) error {
	cl, err := c.Brokers.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	f := &fetcher{
		access: c.Brokers, pinned: c.Pinned, partitions: c.Partitions,
		cl: cl, topic: c.Topic, partition: c.Partition, pos: pos, to: c.To, patience: c.Patience,
	}
	if err := f.confirm(ctx, c.TopicID); err != nil {
		return err
	}
	if err := c.copy(ctx, tail{f}); err != nil {
		return err
	}
	// Old brokers are asked for a topic by its name only, so that one that was recreated shows here at the latest.
	if err := f.confirm(ctx, c.TopicID); err != nil {
		return err
	}
	c.settle(c.To)
	return nil
}

// tail are the records that a fetcher gets.
type tail struct{ f *fetcher }

func (t tail) Next(ctx context.Context) ([]*kgo.Record, error) {
	records, err := t.f.next(ctx)
	if err == nil && len(records) == 0 {
		return nil, io.EOF
	}
	return records, err
}

func (t tail) Covered() int64 { return t.f.pos }

// copy writes segments of all that in has.
func (c *capture) copy(ctx context.Context, in Records) error {
	for {
		records, err := in.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, r := range records {
			if c.rows.batch.Len >= c.SegmentRows || c.rows.bytes >= segmentBytes {
				if err := c.flush(ctx); err != nil {
					return err
				}
			}
			if err := c.rows.add(ctx, r); err != nil {
				return err
			}
		}
		if err := c.wait(ctx, len(records)); err != nil {
			return err
		}
	}
	if next := in.Covered(); next < c.To {
		return fmt.Errorf("the records end at offset %d, before the range does", next)
	}
	if c.rows.batch.Len > 0 || len(c.segments) == 0 {
		return c.flush(ctx)
	}
	return nil
}

// wait holds the next request back until n records are due.
func (c *capture) wait(ctx context.Context, n int) error {
	for c.limit != nil && n > 0 {
		k := min(n, c.limit.Burst())
		if err := c.limit.WaitN(ctx, k); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// settle says where the last segment ends.
func (c *capture) settle(next int64) {
	if len(c.segments) == 0 {
		return
	}
	s := &c.segments[len(c.segments)-1]
	s.Next = next
	if s.Rows == next-s.First {
		s.Offsets = nil // dense
	}
}

// dir is the folder of the partition's segments.
func (c *capture) dir() string {
	return path.Join(c.Prefix, fmt.Sprintf("partition=%d", c.Partition)) + "/"
}

func (c *capture) key(first int64) string {
	return fmt.Sprintf("%s%s+%d+%010d.parquet", c.dir(), c.Topic, c.Partition, first)
}

// resume takes in the segments of an earlier attempt and returns the offset to go on from. Only those that follow each
// other without a hole are taken: whether one is in the log, or a segment was lost, the brokers know.
func (c *capture) resume(ctx context.Context) (int64, error) {
	pos := c.From
	for pos < c.To {
		data, info, err := blob.ReadAll(ctx, c.Store, c.key(pos))
		if errors.Is(err, blob.ErrNotFound) {
			break
		}
		if err != nil {
			return 0, err
		}
		c.settle(pos)
		s, err := c.describe(info, data, pos)
		if err != nil {
			return 0, err
		}
		if s.Rows == 0 {
			return c.To, nil // there was no record at all
		}
		rows := s.Offsets.Hull()
		if rows.First < pos || rows.Next > c.To {
			return 0, fmt.Errorf("segment %s has offsets %v: it is not of this capture", info.Key, rows)
		}
		pos = rows.Next
	}
	return pos, nil
}

// flush writes the rows as the next segment.
func (c *capture) flush(ctx context.Context) error {
	first := c.From
	if len(c.segments) > 0 {
		first = c.rows.batch.Columns[1].Int64s[0]
		c.settle(first)
	}
	data, err := c.encode()
	if err != nil {
		return err
	}
	info, err := c.put(ctx, c.key(first), data)
	if err != nil {
		return err
	}
	if _, err := c.describe(info, data, first); err != nil {
		return err
	}
	c.rows = newRows(c.schema, c.Partition, c.decoder)
	return nil
}

func (c *capture) encode() ([]byte, error) {
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, c.schema, parquetfile.WriterOptions{
		RowGroupRows: c.RowGroupRows, Encodings: map[string]parquetfile.Encoding{source.CapturedColumns.Offset: parquetfile.Delta},
	})
	if err != nil {
		return nil, err
	}
	if err := w.Write(&c.rows.batch); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// put writes an object that may be there already, with the same contents.
func (c *capture) put(ctx context.Context, key string, data []byte) (blob.Info, error) {
	info, err := blob.PutBytes(ctx, c.Store, key, data, blob.Condition{IfAbsent: true})
	if err == nil {
		return info, nil
	}
	// Another attempt was faster, or the reply to this put was lost: what lies there decides.
	there, info, errRead := blob.ReadAll(ctx, c.Store, key)
	switch {
	case errRead != nil:
		return blob.Info{}, fmt.Errorf("write segment %s: %w", key, err)
	case !bytes.Equal(there, data):
		return blob.Info{}, fmt.Errorf("segment %s was captured before with other contents, so the brokers have other records now: %w", key, ErrChanged)
	}
	return info, nil
}
