package parquetfile

import (
	"reflect"

	"github.com/parquet-go/parquet-go"

	"hindcast/internal/record"
)

// rootNode is a schema whose columns keep their order: a parquet.Group sorts them by name.
type rootNode struct {
	parquet.Group
	fields []parquet.Field
}

func (n *rootNode) Fields() []parquet.Field { return n.fields }

// fieldNode names a column.
type fieldNode struct {
	parquet.Node
	name string
}

func (n *fieldNode) Name() string { return n.name }

// Value is asked for only where rows are Go values, which a [Writer] never has.
func (n *fieldNode) Value(reflect.Value) reflect.Value {
	panic("parquetfile: columns are written as columns")
}

// smallType begins with small buffers: the library's begin at the size of a page, of which most files fill none.
type smallType struct{ parquet.Type }

func (t smallType) EstimateNumValues(n int) int { return t.Type.EstimateNumValues(min(n, 4<<10)) }

func columnNode(f record.Field, enc Encoding, millis, binary bool) parquet.Node {
	var n parquet.Node
	switch f.Kind {
	case record.Bool:
		n = parquet.Leaf(parquet.BooleanType)
	case record.Int64:
		n = parquet.Leaf(parquet.Int64Type)
	case record.Float64:
		n = parquet.Leaf(parquet.DoubleType)
	case record.String:
		n = parquet.String()
		if binary {
			n = parquet.Leaf(parquet.ByteArrayType)
		}
	case record.Timestamp:
		n = parquet.Timestamp(parquet.Microsecond)
		if millis {
			n = parquet.Timestamp(parquet.Millisecond)
		}
	case record.Date:
		n = parquet.Date()
	}
	n = parquet.Leaf(smallType{n.Type()})
	switch {
	case enc == Dictionary, enc == Auto && (f.Kind == record.String || f.Kind == record.Date):
		n = parquet.Encoded(n, &parquet.RLEDictionary)
	case enc == Delta && f.Kind == record.String:
		n = parquet.Encoded(n, &parquet.DeltaByteArray)
	case enc == Delta:
		n = parquet.Encoded(n, &parquet.DeltaBinaryPacked)
	default:
		n = parquet.Encoded(n, &parquet.Plain)
	}
	if f.Nullable {
		n = parquet.Optional(n)
	}
	return n
}
