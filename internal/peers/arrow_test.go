package peers

import (
	"bytes"
	"fmt"
	"math/big"
	"os"

	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

func readArrow(req request) (res result) {
	refuse := func(err error) result { return result{Err: err.Error()} }
	b, err := os.ReadFile(req.Path)
	if err != nil {
		return refuse(err)
	}
	f, err := file.NewParquetReader(bytes.NewReader(b))
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	root := f.MetaData().Schema.Root()
	res.Flat = true
	leaf := 0
	var walk func(n schema.Node, path string)
	walk = func(n schema.Node, path string) {
		path += n.Name()
		group, nested := n.(*schema.GroupNode)
		once := n.RepetitionType() != parquet.Repetitions.Repeated
		res.Flat = res.Flat && once && !nested
		if nested && once && n.ConvertedType() == schema.ConvertedTypes.None && n.LogicalType().IsNone() && group.NumFields() > 0 {
			for i := range group.NumFields() {
				walk(group.Field(i), path+".")
			}
			return
		}
		col := column{Name: path, Nested: nested || !once, digest: newDigest(path, req)}
		if !col.Nested {
			if err := arrowColumn(f, leaf, &col.digest); err != nil {
				col.Err = err.Error()
			} else {
				res.Rows = col.Rows
			}
		}
		leaf += leaves(n)
		res.Columns = append(res.Columns, col)
	}
	for i := range root.NumFields() {
		walk(root.Field(i), "")
	}
	return res
}

func leaves(n schema.Node) int {
	g, ok := n.(*schema.GroupNode)
	if !ok {
		return 1
	}
	total := 0
	for i := range g.NumFields() {
		total += leaves(g.Field(i))
	}
	return total
}

// batch is how many values are asked for at a time.
const batch = 1024

func arrowColumn(f *file.Reader, leaf int, d *digest) error {
	descr := f.MetaData().Schema.Column(leaf)
	for g := range f.NumRowGroups() {
		group := f.RowGroup(g)
		r, err := group.Column(leaf)
		if err != nil {
			return err
		}
		before := d.Rows
		if err := arrowChunk(r, descr, d); err != nil {
			return err
		}
		if rows := d.Rows - before; rows != group.NumRows() {
			return fmt.Errorf("it gives %d values for %d rows of row group %d", rows, group.NumRows(), g)
		}
	}
	d.end()
	return nil
}

func arrowChunk(r file.ColumnChunkReader, descr *schema.Column, d *digest) error {
	switch r := r.(type) {
	case *file.BooleanColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v bool) { d.boolean(v) })
	case *file.Int32ColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v int32) { arrowInt(int64(v), int64(uint32(v)), descr, d) })
	case *file.Int64ColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v int64) { arrowInt(v, -1, descr, d) })
	case *file.Int96ColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v parquet.Int96) { d.add("time", []byte(int96(v[:]).String())) })
	case *file.Float32ColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v float32) { d.float(float64(v)) })
	case *file.Float64ColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v float64) { d.float(v) })
	case *file.ByteArrayColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v parquet.ByteArray) { arrowBytes(v, descr, d) })
	case *file.FixedLenByteArrayColumnChunkReader:
		return drain(r.ReadBatch, r.Err, descr, d, func(v parquet.FixedLenByteArray) { arrowBytes(v, descr, d) })
	}
	return fmt.Errorf("its reader is a %T", r)
}

func drain[T any](read func(int64, []T, []int16, []int16) (int64, int, error), failed func() error, descr *schema.Column, d *digest, add func(T)) error {
	values, defs := make([]T, batch), make([]int16, batch)
	for {
		n, got, err := read(batch, values, defs, nil)
		if err != nil {
			return err
		}
		if n == 0 {
			return failed()
		}
		if descr.MaxDefinitionLevel() == 0 {
			for _, v := range values[:got] {
				add(v)
			}
			continue
		}
		at := 0
		for _, def := range defs[:n] {
			if def < descr.MaxDefinitionLevel() {
				d.null()
				continue
			}
			if at >= got {
				return fmt.Errorf("it gives %d values where its levels say more", got)
			}
			add(values[at])
			at++
		}
	}
}

// logical is a column's annotation, the old one where there is no new. The library gives some as pointers.
func logical(c *schema.Column) schema.LogicalType {
	switch l := c.LogicalType().(type) {
	case *schema.DecimalLogicalType:
		return *l
	case *schema.TimeLogicalType:
		return *l
	case *schema.TimestampLogicalType:
		return *l
	case *schema.IntLogicalType:
		return *l
	default:
		return l
	}
}

func arrowInt(v, unsigned int64, c *schema.Column, d *digest) {
	switch l := logical(c).(type) {
	case schema.DecimalLogicalType:
		d.decimal(unscaled(big.NewInt(v), int(l.Scale())))
	case schema.DateLogicalType:
		d.date(v)
	case schema.TimeLogicalType:
		d.clock(toMicros(v, l.TimeUnit()))
	case schema.TimestampLogicalType:
		d.micros(toMicros(v, l.TimeUnit()))
	case schema.IntLogicalType:
		arrowUint(v, unsigned, l.IsSigned(), d)
	default:
		d.int(v)
	}
}

func arrowUint(v, unsigned int64, sign bool, d *digest) {
	switch {
	case sign:
		d.int(v)
	case unsigned >= 0:
		d.int(unsigned)
	default:
		d.uint(uint64(v))
	}
}

func toMicros(v int64, unit schema.TimeUnitType) int64 {
	switch unit {
	case schema.TimeUnitMillis:
		return v * 1000
	case schema.TimeUnitNanos:
		return floorDiv(v, 1000)
	}
	return v
}

func arrowBytes(v []byte, c *schema.Column, d *digest) {
	switch l := logical(c).(type) {
	case schema.DecimalLogicalType:
		d.decimal(unscaled(signed(v), int(l.Scale())))
	case schema.Float16LogicalType:
		d.float(float64(float16.FromLEBytes(v).Float32()))
	case schema.IntervalLogicalType:
		intervalBytes(v, d)
	default:
		d.bytes(v)
	}
}
