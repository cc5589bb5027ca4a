// Package peers holds what Hindcast reads of Parquet files against what DuckDB and arrow-go read of them, and what it writes against what they
// and pyarrow read. It is a module of its own, so that the product depends on none of them, and has tests only: .ci/peers runs them.
package peers
