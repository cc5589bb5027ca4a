package tieredsrc

import (
	"crypto/rsa"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSizesOfChunks has the vectors of the plugin's own codec, and what is none of its.
func TestSizesOfChunks(t *testing.T) {
	for text, want := range map[string][]int32{
		"00000000":                       nil,
		"0000000100000007":               {7},
		"00000003000f424001000a000f4254": {1000000, 1000010, 1000020},
		"0000000400000064030000c801110c00000000000001": {300, 70000, 100, 1},
		"00000002000000010200010000ffff":               {2, 0xffff},
		"0000000200000000047fffffff00000001":           {0x7fffffff, 1},
	} {
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseSizes(raw)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
		for n := range raw {
			if got, err := parseSizes(raw[:n]); err == nil {
				t.Errorf("%s cut at %d: %d", text, n, got)
			}
		}
		if got, err := parseSizes(append(raw, 0)); err == nil {
			t.Errorf("%s and a byte more: %d", text, got)
		}
	}
	for _, text := range []string{"ffffffff", "7fffffff000000010100", "00000002000000000500000000000000000000", "00000002000000000000000001", "000000027fffffff01ff00000001"} {
		raw, _ := hex.DecodeString(text)
		if got, err := parseSizes(raw); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
}

func TestNamesAreTakenApartFromTheRight(t *testing.T) {
	const topic, seg = "-AAAAAAAAAAAAAAAAAA_-w", "ZZ-_ZZZZZZZZZZZZZZZZZg"
	for key, want := range map[string]string{
		"aiven orders-" + topic + "/12/00000000000000000123-" + seg + ".log":              "orders 12 123 .log",
		"aiven or-ders-" + topic + "/0/00000000000000000123-" + seg + ".rsm-manifest":     "or-ders 0 123 .rsm-manifest",
		"aiven orders-" + topic + "-" + topic + "/0/00000000000000000000-" + seg + ".log": "orders-" + topic + " 0 0 .log",
		"aiven orders-" + topic + "/0/123-" + seg + ".log":                                "orders 0 123 .log",
		"local or-ders-7-" + topic + "/00000000000000000123-" + seg + ".timeindex":        "or-ders 7 123 .timeindex",
		"local orders-0-" + topic + "/5-" + seg + ".leader_epoch_checkpoint":              "orders 0 5 .leader_epoch_checkpoint",
		"aiven orders-" + topic + "/01/00000000000000000123-" + seg + ".log":              "",
		"aiven orders-" + topic + "/-1/00000000000000000123-" + seg + ".log":              "",
		"aiven orders-" + topic + "/2147483648/00000000000000000123-" + seg + ".log":      "",
		"aiven orders-" + topic + "/x/00000000000000000123-" + seg + ".log":               "",
		"aiven a/orders-" + topic + "/1/00000000000000000123-" + seg + ".log":             "",
		"aiven orders-short/1/00000000000000000123-" + seg + ".log":                       "",
		"aiven " + topic + "/1/00000000000000000123-" + seg + ".log":                      "",
		"aiven orders-" + topic + "/1/00000000000000000123-short.log":                     "",
		"aiven orders-" + topic + "/1/00000000000000000123-" + seg:                        "",
		"aiven orders-" + topic + "/1/99999999999999999999-" + seg + ".log":               "",
		"aiven orders-" + topic + "/1/0000000000000000012a-" + seg + ".log":               "",
		"aiven orders-" + topic + "/00000000000000000123-" + seg + ".log":                 "",
		"local orders-" + topic + "/00000000000000000123-" + seg + ".log":                 "",
		"aiven ": "", "aiven /": "", "aiven //": "", "local -": "",
	} {
		layout, path, _ := strings.Cut(key, " ")
		n, ok := parseName(Layout(layout), path)
		got := ""
		if ok {
			got = fmt.Sprintf("%s %d %d %s", n.topic, n.partition, n.base, n.part)
			if n.topicID != topic || n.id != seg || n.stem+n.part != path {
				t.Errorf("%s: %+v", key, n)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	got, err := parseCheckpoint([]byte("0\n3\n0 0\n2 100\n5 100\n"))
	if err != nil || !reflect.DeepEqual(got, []Epoch{{0, 0}, {2, 100}, {5, 100}}) {
		t.Errorf("%v, %v", got, err)
	}
	// That of 2 has no offset.
	if got, err := within(got, 50, 200); err != nil || !reflect.DeepEqual(got, []Epoch{{0, 50}, {5, 100}}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := within(got, 200, 300); err != nil || !reflect.DeepEqual(got, []Epoch{{5, 200}}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "0", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 0\n1 1\n", "0\n1\n0\n", "0\n1\n0 -1\n", "0\n1\nx 1\n", "0\n1\n4294967296 1\n", "0\n1\n0 0"[:7], "0\n-1\n"} {
		if got, err := parseCheckpoint([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, list := range [][]Epoch{{{2, 0}, {1, 5}}, {{1, 5}, {2, 0}}, {{1, 5}, {1, 6}}, nil, {{1, 100}}} {
		if got, err := within(list, 0, 50); err == nil {
			t.Errorf("%v: %v", list, got)
		}
	}
}

// TestCommonIsWhatTheEpochsShare has segments against the lineage 1 from 100, 3 from 200, 6 from 300, of a log that starts at 100.
func TestCommonIsWhatTheEpochsShare(t *testing.T) {
	lineage := []Epoch{{1, 100}, {3, 200}, {6, 300}}
	for want, s := range map[string]segment{
		"100-150 whole":                           {next: 150, epochs: []Epoch{{1, 100}}},
		"150-400 whole, over several epochs":      {next: 400, epochs: []Epoch{{1, 150}, {3, 200}, {6, 300}}},
		"100-150 from where the log starts":       {next: 150, epochs: []Epoch{{1, 50}}},
		"100-120 whose first epoch is forgotten":  {next: 120, epochs: []Epoch{{0, 50}, {1, 90}}},
		"150-200 up to where its leader lost":     {next: 250, epochs: []Epoch{{1, 150}}},
		"210-300 up to a leader that is not":      {next: 350, epochs: []Epoch{{3, 210}, {4, 300}}},
		"150-200 an epoch of which began later":   {next: 400, epochs: []Epoch{{1, 150}, {3, 220}}},
		"150-190 an epoch of which began earlier": {next: 400, epochs: []Epoch{{1, 150}, {3, 190}}},
		"-1--1 of a leader that is not":           {next: 400, epochs: []Epoch{{4, 250}}},
		"-1--1 of before the log's start":         {next: 100, epochs: []Epoch{{1, 50}}},
		"-1--1 of an epoch at another place":      {next: 400, epochs: []Epoch{{3, 310}}},
	} {
		first, next := s.common(lineage)
		if got := fmt.Sprintf("%d-%d", first, next); !strings.HasPrefix(want, got+" ") {
			t.Errorf("%s: %s", want, got)
		}
	}
}

func TestTransactionIndex(t *testing.T) {
	raw, _ := hex.DecodeString("0000" + "0000000000000007" + "000000000000000a" + "0000000000000014" + "000000000000000f")
	got, err := parseTxns(raw)
	if err != nil || len(got) != 1 || got[0].ProducerID != 7 || got[0].First != 10 || got[0].Last != 20 || got[0].stable != 15 {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"cut":                  func(b []byte) []byte { return b[:33] },
		"another version":      func(b []byte) []byte { b[1] = 1; return b },
		"a negative producer":  func(b []byte) []byte { b[2] = 0x80; return b },
		"an end before it":     func(b []byte) []byte { b[25] = 9; return b },
		"stable past its end":  func(b []byte) []byte { b[33] = 22; return b },
		"twice the same":       func(b []byte) []byte { return append(b, b...) },
		"a negative beginning": func(b []byte) []byte { b[10] = 0x80; return b },
	} {
		if got, err := parseTxns(change(slices.Clone(raw))); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOffsetIndex(t *testing.T) {
	index, _ := hex.DecodeString("0000000a00000000" + "0000001400000064" + "0000001e000000c8" + "0000000000000000")
	for rel, want := range map[int64]int64{0: 0, 9: 0, 10: 0, 19: 0, 20: 100, 29: 100, 30: 200, 1 << 32: 200} {
		if got := position(index, rel); got != want {
			t.Errorf("%d: %d, want %d", rel, got, want)
		}
	}
	if got := position(index[:5], 100); got != 0 {
		t.Error(got)
	}
}

// FuzzManifest holds that a manifest and a chunk index of any bytes are read, or refused, and give chunks that tile the log.
func FuzzManifest(f *testing.F) {
	head := `{"version":"1","remoteLogSegmentMetadata":{"remoteLogSegmentId":{"topicIdPartition":{"topicPartition":{"partition":0}}},"startOffset":0,"endOffset":9,"segmentLeaderEpochs":{"0":0}},"chunkIndex":`
	f.Add([]byte(head+`{"type":"fixed","originalChunkSize":100,"originalFileSize":250,"transformedChunkSize":128,"finalTransformedChunkSize":78}}`), int64(334))
	f.Add([]byte(head+`{"type":"variable","originalChunkSize":100,"originalFileSize":350,"transformedChunks":"KLUv/QQAsQAAAAAABAAAAGQDAADIAREMAAAAAAAAAZrJbZM="}}`), int64(70401))
	f.Fuzz(func(t *testing.T, raw []byte, stored int64) {
		m, err := parseManifest(raw)
		if err != nil {
			return
		}
		c, err := m.ChunkIndex.index(stored)
		if err != nil {
			return
		}
		if n := int64(len(c.at) - 1); c.at[0] != 0 || c.at[n] != stored || n*c.original < c.file || (n-1)*c.original >= c.file && n > 0 || !slices.IsSorted(c.at) {
			t.Fatalf("%+v of %d bytes", c, stored)
		}
		_ = m.cover(stored)
	})
}

func FuzzNames(f *testing.F) {
	f.Add("orders--AAAAAAAAAAAAAAAAAA_-w/12/00000000000000000123-ZZ-_ZZZZZZZZZZZZZZZZZg.log")
	f.Add("orders-7--AAAAAAAAAAAAAAAAAA_-w/00000000000000000123-ZZ-_ZZZZZZZZZZZZZZZZZg.log")
	f.Fuzz(func(t *testing.T, key string) {
		for _, layout := range []Layout{Aiven, Local} {
			n, ok := parseName(layout, key)
			if ok && (n.stem+n.part != key || n.topic == "" || !isID(n.topicID) || !isID(n.id) || n.base < 0 || n.partition < 0) {
				t.Fatalf("%q: %+v", key, n)
			}
		}
	})
}

// TestEncryptionOfOthersIsOpened has a data key and a chunk that no code here made.
func TestEncryptionOfOthersIsOpened(t *testing.T) {
	raw, err := os.ReadFile("testdata/encrypted.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		PrivateKey string `json:"private_key"`
		DataKey    string `json:"data_key"`
		AAD        string `json:"aad"`
		Chunk      []byte `json:"chunk"`
		Contents   string `json:"contents"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey([]byte(v.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	k, err := unwrap(encryption{DataKey: v.DataKey, AAD: v.AAD}, map[string]*rsa.PrivateKey{"test-key": key})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.open(v.Chunk); err != nil || string(got) != v.Contents {
		t.Errorf("%q, %v", got, err)
	}
	for i := range v.Chunk {
		v.Chunk[i]++
		if got, err := k.open(v.Chunk); err == nil {
			t.Errorf("with byte %d changed: %q", i, got)
		}
		v.Chunk[i]--
	}
	for n := range v.Chunk {
		if got, err := k.open(v.Chunk[:n]); err == nil {
			t.Errorf("cut at %d: %q", n, got)
		}
	}
}
