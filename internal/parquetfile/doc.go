// Package parquetfile turns Parquet files into record batches and back.
//
// It owns the guards. Files come from anywhere, so whatever cannot be read
// exactly is refused, naming file, row group, column and reason: see [Error]. It
// refuses nested columns, encrypted files, INT96, decimals, times of day and
// timestamps without a zone, and it converts nothing that could lose something.
package parquetfile
