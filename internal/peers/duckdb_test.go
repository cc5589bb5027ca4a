package peers

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2"
)

// readDuckDB reads column by column, so that one that it cannot read hides no other.
func readDuckDB(req request) (res result) {
	refuse := func(err error) result { return result{Err: err.Error()} }
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return refuse(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range []string{
		"SET threads = 1", "SET memory_limit = '1GB'", "SET temp_directory = ''", "SET TimeZone = 'UTC'", "SET enable_geoparquet_conversion = false",
	} {
		if _, err := db.Exec(q); err != nil {
			return refuse(err)
		}
	}
	// Its paths are patterns: a name without any is another's.
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return refuse(err)
	}
	defer os.RemoveAll(dir)
	path := dir + "/file.parquet"
	b, err := os.ReadFile(req.Path)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return refuse(err)
	}
	from := fmt.Sprintf("FROM read_parquet('%s', hive_partitioning = false)", path)
	res.Flat = true
	// Columns of structures follow one another by their paths; expr selects what is described.
	var walk func(selected, path string, expr func(name string) string) error
	walk = func(selected, path string, expr func(name string) string) error {
		cols, err := duckDescribe(db, "SELECT "+selected+" "+from)
		if err != nil {
			return err
		}
		for _, c := range cols {
			name, of := path+c.name, expr(c.name)
			if strings.HasPrefix(c.typ, "STRUCT") && !strings.HasSuffix(c.typ, "]") {
				res.Flat = false
				if err := walk("unnest("+of+")", name+".", func(name string) string {
					return "struct_extract(" + of + ", '" + strings.ReplaceAll(name, "'", "''") + "')"
				}); err != nil {
					return err
				}
				continue
			}
			col := column{Name: name, digest: newDigest(name, req)}
			col.Nested = strings.HasSuffix(c.typ, "]") || strings.HasPrefix(c.typ, "MAP") || c.typ == "VARIANT"
			res.Flat = res.Flat && !col.Nested
			if !col.Nested {
				if err := duckColumn(db, from, of, c.typ, &col.digest); err != nil {
					col.Err = err.Error()
				}
			}
			if col.Err == "" && !col.Nested {
				res.Rows = col.Rows
			}
			res.Columns = append(res.Columns, col)
		}
		return nil
	}
	// Columns of one name become x and x_1, so names are unique here.
	if err := walk("*", "", func(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }); err != nil {
		return refuse(err)
	}
	return res
}

// duckDescribed is a column of a query.
type duckDescribed struct{ name, typ string }

func duckDescribe(db *sql.DB, query string) (cols []duckDescribed, err error) {
	rows, err := db.Query("DESCRIBE " + query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c duckDescribed
		var rest [4]any
		if err := rows.Scan(&c.name, &c.typ, &rest[0], &rest[1], &rest[2], &rest[3]); err != nil {
			return nil, err
		}
		cols = append(cols, c)
	}
	return cols, rows.Err()
}

func duckColumn(db *sql.DB, from, expr, typ string, d *digest) error {
	var add func(v any) error
	bad := func(v any) error { return fmt.Errorf("its driver gives %T for %s", v, typ) }
	number := func(add func(int64)) func(any) error {
		return func(v any) error {
			n, ok := v.(int64)
			if !ok {
				return bad(v)
			}
			add(n)
			return nil
		}
	}
	switch {
	case typ == "TIMESTAMP_NS":
		expr = "epoch_ns(" + expr + ")"
		add = number(func(v int64) { d.micros(floorDiv(v, 1000)) })
	case strings.HasPrefix(typ, "TIMESTAMP"):
		expr = "epoch_us(" + expr + ")"
		add = number(d.micros)
	case typ == "DATE":
		expr = "datediff('day', DATE '1970-01-01', " + expr + ")"
		add = number(d.date)
	case typ == "TIME_NS":
		expr = "epoch_ns(" + expr + ")"
		add = number(func(v int64) { d.clock(floorDiv(v, 1000)) })
	case strings.HasPrefix(typ, "TIME"):
		expr = "epoch_us(" + expr + ")"
		add = number(d.clock)
	case strings.HasPrefix(typ, "DECIMAL"):
		expr += "::VARCHAR"
		add = func(v any) error {
			s, ok := v.(string)
			if !ok {
				return bad(v)
			}
			d.decimal(trimDecimal(s))
			return nil
		}
	case typ == "INTERVAL":
		months := fmt.Sprintf("(datepart('year', %[1]s) * 12 + datepart('month', %[1]s))", expr)
		days := fmt.Sprintf("datepart('day', %s)", expr)
		clock := fmt.Sprintf("epoch_us(%s - to_months(%s::INTEGER) - to_days(%s::INTEGER))", expr, months, days)
		expr = fmt.Sprintf("printf('%%d %%d %%d', %s, %s, %s)", months, days, clock)
		add = func(v any) error {
			s, ok := v.(string)
			if !ok {
				return bad(v)
			}
			var months, days, us int64
			if _, err := fmt.Sscan(s, &months, &days, &us); err != nil {
				return err
			}
			d.interval(months, days, us/1000)
			return nil
		}
	case typ == "UUID":
		expr += "::VARCHAR"
		add = func(v any) error {
			s, ok := v.(string)
			if !ok {
				return bad(v)
			}
			b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
			d.bytes(b)
			return err
		}
	case typ == "JSON" || strings.HasPrefix(typ, "ENUM"):
		expr += "::VARCHAR"
		fallthrough
	default:
		add = func(v any) error { return duckValue(v, typ, d) }
	}
	rows, err := db.Query("SELECT " + expr + " " + from)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var v any
		if err := rows.Scan(&v); err != nil {
			return err
		}
		if v == nil {
			d.null()
			continue
		}
		if err := add(v); err != nil {
			return err
		}
	}
	d.end()
	return rows.Err()
}

func duckValue(v any, typ string, d *digest) error {
	switch v := v.(type) {
	case bool:
		d.boolean(v)
	case int8:
		d.int(int64(v))
	case int16:
		d.int(int64(v))
	case int32:
		d.int(int64(v))
	case int64:
		d.int(v)
	case uint8:
		d.uint(uint64(v))
	case uint16:
		d.uint(uint64(v))
	case uint32:
		d.uint(uint64(v))
	case uint64:
		d.uint(v)
	case float32:
		d.float(float64(v))
	case float64:
		d.float(v)
	case string:
		d.bytes([]byte(v))
	case []byte:
		d.bytes(v)
	case *big.Int:
		d.big(v)
	default:
		return fmt.Errorf("its driver gives %T for %s", v, typ)
	}
	return nil
}
