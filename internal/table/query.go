package table

import (
	"fmt"
	"strings"

	"hindcast/internal/record"
)

// Dialect is whose language a query is written in.
type Dialect string

// The dialects.
const (
	DuckDB Dialect = "duckdb"
	Athena Dialect = "athena"
	Spark  Dialect = "spark" // PySpark
)

// Query gives a query over exactly the files that the version has of a table, where
// base is what others call the dataset's root: "s3://lake/retail", or a folder.
func (s *Snapshot) Query(name, base string, as Dialect) (string, error) {
	t, err := s.Table(name)
	if err != nil {
		return "", err
	}
	files, err := s.Files(name)
	if err != nil {
		return "", err
	}
	base = strings.TrimRight(base, "/")
	var paths []string
	for _, f := range files {
		paths = append(paths, base+"/"+f.Path)
	}
	q := query{dataset: s.Manifest.Commit.Dataset, table: name, base: base, paths: paths, columns: t.Schema.Columns()}
	head := fmt.Sprintf("version %d of %s: %d files", s.Manifest.Commit.Generation, name, len(paths))
	switch as {
	case DuckDB:
		return "-- " + head + "\n" + q.duckdb(), nil
	case Athena:
		if !strings.HasPrefix(base, "s3://") {
			return "", fmt.Errorf("athena reads s3://, and the dataset lies in %s", base)
		}
		return "-- " + head + "\n" + q.athena(), nil
	case Spark:
		return "# " + head + "\n" + q.spark(), nil
	}
	return "", fmt.Errorf("unknown dialect %q: there are duckdb, athena and spark", as)
}

type query struct {
	dataset, table, base string
	paths                []string
	columns              record.Schema
}

func (q query) duckdb() string {
	if len(q.paths) == 0 {
		return q.empty(map[record.Kind]string{
			record.Bool: "BOOLEAN", record.Int64: "BIGINT", record.Float64: "DOUBLE",
			record.String: "VARCHAR", record.Timestamp: "TIMESTAMPTZ", record.Date: "DATE",
		}) + ";\n"
	}
	// The partition is a column of the files; DuckDB would find it in the path, too.
	return "SELECT * FROM read_parquet([\n  " + strings.Join(each(q.paths, quoteSQL), ",\n  ") + "\n], hive_partitioning = false);\n"
}

var athenaTypes = map[record.Kind]string{
	record.Bool: "boolean", record.Int64: "bigint", record.Float64: "double",
	record.String: "string", record.Timestamp: "timestamp", record.Date: "date",
}

// athena declares a table over all data files of the dataset, of which the query reads those
// that the version has: Athena skips files by "$path".
func (q query) athena() string {
	if len(q.paths) == 0 {
		types := map[record.Kind]string{}
		for k, name := range athenaTypes {
			types[k] = strings.ReplaceAll(name, "string", "varchar")
		}
		return q.empty(types) + ";\n"
	}
	table := "`" + strings.NewReplacer("-", "_", ".", "_").Replace("hindcast_"+q.dataset+"_"+q.table) + "`"
	var columns []string
	for _, f := range q.columns {
		columns = append(columns, "`"+f.Name+"` "+athenaTypes[f.Kind])
	}
	return "CREATE EXTERNAL TABLE IF NOT EXISTS " + table + " (\n  " + strings.Join(columns, ",\n  ") + "\n)\nSTORED AS PARQUET\nLOCATION " +
		quoteSQL(q.base+"/data/") + ";\n\nSELECT * FROM " + strings.ReplaceAll(table, "`", `"`) + "\nWHERE \"$path\" IN (\n  " +
		strings.Join(each(q.paths, quoteSQL), ",\n  ") + "\n);\n"
}

func (q query) spark() string {
	if len(q.paths) == 0 {
		var columns []string
		for _, f := range q.columns {
			columns = append(columns, "`"+f.Name+"` "+athenaTypes[f.Kind])
		}
		return "df = spark.createDataFrame([], " + quotePython(strings.Join(columns, ", ")) + ")\n"
	}
	return "df = spark.read.parquet(\n  " + strings.Join(each(q.paths, quotePython), ",\n  ") + ",\n)\n"
}

// empty is a query with the table's columns and no rows.
func (q query) empty(types map[record.Kind]string) string {
	var columns []string
	for _, f := range q.columns {
		columns = append(columns, fmt.Sprintf("CAST(NULL AS %s) AS %s", types[f.Kind], `"`+strings.ReplaceAll(f.Name, `"`, `""`)+`"`))
	}
	return "SELECT " + strings.Join(columns, ", ") + " WHERE false"
}

func each(list []string, f func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

func quoteSQL(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func quotePython(s string) string { return fmt.Sprintf("%q", s) }
