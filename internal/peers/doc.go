// Package peers holds what Hindcast reads of Parquet files against what DuckDB and arrow-go read of them. It is a module of its own, so
// that the product depends on neither, and has tests only: .ci/peers runs them.
package peers
