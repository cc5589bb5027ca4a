// Package parquetfile turns Parquet files into record batches and back.
//
// It owns the guards. Files come from anywhere, so whatever cannot be read
// exactly is refused, naming file, row group, column and reason: see [Error]. It
// refuses nested columns, encrypted files, INT96, decimals, times of day and
// timestamps without a zone, and it converts nothing that could lose something, but that
// nanoseconds are floored to microseconds.
//
// Metadata is decoded in the package footer, pages in the package column. The
// library parquet-go writes.
package parquetfile
