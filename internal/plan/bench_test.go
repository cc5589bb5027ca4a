package plan

import (
	"fmt"
	"testing"
)

// BenchmarkBuild plans a log of 10,000 segments of 100 row groups each, as a large topic's quarter has.
func BenchmarkBuild(b *testing.B) {
	inv := Inventory{Topic: "t"}
	for p := range int32(20) {
		for i := range int64(500) {
			s := dense(p, i*10_000, (i+1)*10_000)
			s.Key = fmt.Sprintf("topics/t/partition=%d/t+%d+%010d.zstd.parquet", p, p, i*10_000)
			inv.Segments = append(inv.Segments, s)
		}
	}
	s := testSpec(day, hour, false, daily)
	for name, w := range map[string]int64{"days": 21, "years": 9 * 365} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				window := london("2012-03-01", "2012-03-02")
				window.To += w * day
				_, window.To, _ = daily.Expand(window.From, window.To)
				p, err := Build(s, window, inv, Options{})
				if err != nil {
					b.Fatal(err)
				}
				shards, _, err := Shards(p, nil)
				if err != nil {
					b.Fatal(err)
				}
				sum, err := p.Summary()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(shards)), "shards")
				b.ReportMetric(sum.Amplification, "readings")
			}
		})
	}
}
