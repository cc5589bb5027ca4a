// Package parquetfile turns Parquet files into record batches and back.
//
// It owns the guards. Files come from anywhere, so whatever cannot be read
// exactly is refused, naming file, row group, column and reason: see [Error]. It
// refuses lists, maps and encrypted files, and it converts nothing that could lose something, but that
// nanoseconds are floored to microseconds. What a file alone does not say is read by a declared [Rule] or not at all: the scale of
// decimals, the zone of wall clocks, what INT96 means. Times of day are Int64, in microseconds since midnight; intervals, UUIDs, JSON, BSON
// and shapes are bytes as they lie; 16-bit floats are Float64.
//
// A column in structures is read by its path, as a.b, and is null where a structure of its path is.
//
// Metadata is decoded in the package footer, pages in the package column. Files are
// written page by page with parquet-go's encodings and definitions of the format.
package parquetfile
