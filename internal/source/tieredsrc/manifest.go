package tieredsrc

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"hindcast/internal/blob"
)

// Limits of what Aiven's objects may say.
const (
	maxManifest = 4 << 20
	maxPart     = 64 << 20 // of an index
	maxChunk    = 64 << 20 // as the broker had it, and as it is stored; the plugin's default is 4 MiB
	maxChunks   = 1 << 21
	chunkRoom   = 1 << 20 // what encryption and compression may add to a chunk
)

// manifest is the JSON of a .rsm-manifest, version 1. Pointers tell what is absent; unknown fields are passed over.
type manifest struct {
	Version        string           `json:"version"`
	ChunkIndex     *chunkIndexJSON  `json:"chunkIndex"`
	SegmentIndexes map[string]*part `json:"segmentIndexes"`
	Compression    bool             `json:"compression"`
	Encryption     *encryption      `json:"encryption"`
	Metadata       *struct {
		ID *struct {
			TopicIDPartition struct {
				TopicID        string `json:"topicId"`
				TopicPartition struct {
					Topic     string `json:"topic"`
					Partition *int32 `json:"partition"`
				} `json:"topicPartition"`
			} `json:"topicIdPartition"`
			ID string `json:"id"`
		} `json:"remoteLogSegmentId"`
		StartOffset    *int64          `json:"startOffset"`
		EndOffset      *int64          `json:"endOffset"` // inclusive
		MaxTimestampMs *int64          `json:"maxTimestampMs"`
		LeaderEpochs   map[int32]int64 `json:"segmentLeaderEpochs"`
	} `json:"remoteLogSegmentMetadata"`

	key dataKey
}

// part is where one of the indexes lies in the object that has all.
type part struct {
	Position int64 `json:"position"`
	Size     int64 `json:"size"`
}

type encryption struct {
	DataKey string `json:"dataKey"` // "<id of the key that it is wrapped with>:<base64>"
	AAD     string `json:"aad"`     // base64
}

type chunkIndexJSON struct {
	Type              string `json:"type"`
	OriginalChunkSize int64  `json:"originalChunkSize"`
	OriginalFileSize  int64  `json:"originalFileSize"`
	// Those of type fixed.
	TransformedChunkSize      int64 `json:"transformedChunkSize"`
	FinalTransformedChunkSize int64 `json:"finalTransformedChunkSize"`
	// That of type variable: base64 of a zstd frame.
	TransformedChunks string `json:"transformedChunks"`
}

// parseManifest reads a manifest and checks what can be checked without any other object.
func parseManifest(raw []byte) (*manifest, error) {
	var m manifest
	err := json.Unmarshal(raw, &m)
	switch {
	case m.Version != "" && m.Version != "1" || err == nil && m.Version == "":
		return nil, fmt.Errorf("the manifest has version %q: only 1 is read", m.Version)
	case err != nil:
		return nil, fmt.Errorf("the manifest is no JSON of the plugin's: %w", err)
	}
	md := m.Metadata
	switch {
	case m.ChunkIndex == nil:
		return nil, errors.New("the manifest has no chunkIndex")
	case md == nil || md.ID == nil || md.StartOffset == nil || md.EndOffset == nil || md.ID.TopicIDPartition.TopicPartition.Partition == nil:
		return nil, errors.New("the manifest does not say which offsets of which partition the segment has (remoteLogSegmentMetadata)")
	case *md.StartOffset < 0 || *md.EndOffset < *md.StartOffset-1 || *md.EndOffset == math.MaxInt64:
		return nil, fmt.Errorf("the manifest has the offsets %d to %d: that is no range", *md.StartOffset, *md.EndOffset)
	case len(md.LeaderEpochs) == 0:
		return nil, errors.New("the manifest has no segmentLeaderEpochs")
	}
	for name, p := range m.SegmentIndexes {
		if p != nil && (p.Position < 0 || p.Size < 0 || p.Size > maxPart) {
			return nil, fmt.Errorf("the manifest has the %s index at %d with %d bytes: at most %d are read",
				name, p.Position, p.Size, maxPart)
		}
	}
	return &m, nil
}

// describeAiven reads the manifest. It is not pinned: when the keys that wrap data keys change, the plugin writes it anew.
func (s *segment) describeAiven(ctx context.Context, store blob.Store, opts Options) error {
	o, err := store.Get(ctx, s.stem+partManifest, blob.GetOptions{})
	if err != nil {
		return changed(err)
	}
	defer o.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(o.Body, maxManifest+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", s.stem+partManifest, err)
	}
	if len(raw) > maxManifest {
		return fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	}
	m, err := parseManifest(raw)
	if err != nil {
		return err
	}
	md := m.Metadata
	tip := md.ID.TopicIDPartition
	dir := fmt.Sprintf("%s-%s/%d/", tip.TopicPartition.Topic, tip.TopicID, *tip.TopicPartition.Partition)
	if file := fmt.Sprintf("%s%020d-%s",
		dir, *md.StartOffset, md.ID.ID); len(s.stem) < len(file) || s.stem[len(s.stem)-len(file):] != file {
		return fmt.Errorf("the manifest is that of another segment, %s", file)
	}
	s.next, s.size, s.manifest = *md.EndOffset+1, m.ChunkIndex.OriginalFileSize, m
	if md.MaxTimestampMs != nil {
		s.maxTimestamp = *md.MaxTimestampMs
	}
	for _, e := range slices.Sorted(maps.Keys(md.LeaderEpochs)) {
		s.epochs = append(s.epochs, Epoch{Epoch: e, First: md.LeaderEpochs[e]})
	}
	s.epochs, err = within(s.epochs, s.base, s.next)
	if err == nil && s.broken == nil {
		err = m.cover(s.parts[partIndexes].Size)
	}
	if err == nil && s.broken == nil && m.Encryption != nil {
		if m.key, s.broken = unwrap(*m.Encryption, opts.Keys); s.broken != nil {
			s.broken = fmt.Errorf("segment %s: %w", s.stem, s.broken)
		}
	}
	return err
}

// cover holds that the indexes lie one after the other and are all that the object has: a manifest that lost one would else give the records of
// aborted transactions.
func (m *manifest) cover(size int64) error {
	at := int64(0)
	for _, name := range []string{indexOffsets, "timestamp", indexSnapshot, indexEpochs, indexTxns} {
		p := m.SegmentIndexes[name]
		switch {
		case p == nil && name != indexTxns:
			return fmt.Errorf("the manifest has no %s index", name)
		case p == nil:
		case p.Position != at:
			return fmt.Errorf("the manifest has the %s index at %d, and the one before it ends at %d", name, p.Position, at)
		default:
			at += p.Size
		}
	}
	if at != size {
		return fmt.Errorf("the manifest has indexes of %d bytes, and they have %d: one is missing or cut off", at, size)
	}
	return nil
}

// aivenPart reads one of the indexes by its name in the manifest. One that is absent is empty.
func (s *segment) aivenPart(ctx context.Context, store blob.Store, name string) ([]byte, error) {
	p := s.manifest.SegmentIndexes[name]
	if p == nil || p.Size == 0 {
		return nil, nil
	}
	raw, err := get(ctx, store, s.parts[partIndexes], p.Position, p.Size)
	if err != nil {
		return nil, err
	}
	if s.manifest.Encryption != nil {
		if raw, err = s.manifest.key.open(raw); err != nil {
			return nil, fmt.Errorf("the %s index in %s: %w", name, s.stem+partIndexes, err)
		}
	}
	return raw, nil
}

// chunks says where the chunks of a log lie.
type chunks struct {
	original int64 // size of every chunk but the last, as the broker had it
	file     int64 // size of them all
	// at is where each chunk begins, as stored, and where the last one ends.
	at []int64
}

// index reads the chunk index, for a log that has stored bytes.
func (c *chunkIndexJSON) index(stored int64) (chunks, error) {
	if c.OriginalChunkSize < 1 || c.OriginalChunkSize > maxChunk {
		return chunks{}, fmt.Errorf("the manifest has chunks of %d bytes: 1 to %d are read", c.OriginalChunkSize, maxChunk)
	}
	if c.OriginalFileSize < 0 || c.OriginalFileSize > math.MaxInt32+1<<30 {
		return chunks{}, fmt.Errorf("the manifest has a segment of %d bytes: that is more than Kafka's have", c.OriginalFileSize)
	}
	n := (c.OriginalFileSize + c.OriginalChunkSize - 1) / c.OriginalChunkSize
	if n > maxChunks {
		return chunks{}, fmt.Errorf("the manifest has %d chunks: at most %d are read", n, maxChunks)
	}
	var sizes []int32
	switch c.Type {
	case "fixed":
		each, last := c.TransformedChunkSize, c.FinalTransformedChunkSize
		if n > 0 && (min(each, last) < 1 || max(each, last) > maxChunk+chunkRoom) {
			return chunks{}, fmt.Errorf("the manifest has stored chunks of %d bytes, the last of %d: 1 to %d are read",
				each, last, maxChunk+chunkRoom)
		}
		sizes = slices.Repeat([]int32{int32(each)}, int(n))
		if n > 0 {
			sizes[n-1] = int32(last)
		}
	case "variable":
		var err error
		if sizes, err = chunkSizes(c.TransformedChunks, int(n)); err != nil {
			return chunks{}, fmt.Errorf("the manifest's chunk index: %w", err)
		}
	default:
		return chunks{}, fmt.Errorf("the manifest has a chunk index of type %q: only fixed and variable are read", c.Type)
	}
	out := chunks{original: c.OriginalChunkSize, file: c.OriginalFileSize, at: make([]int64, 1, n+1)}
	end := int64(0)
	for _, s := range sizes {
		if s < 1 || s > maxChunk+chunkRoom {
			return chunks{}, fmt.Errorf("the manifest has a stored chunk of %d bytes: 1 to %d are read", s, maxChunk+chunkRoom)
		}
		end += int64(s)
		out.at = append(out.at, end)
	}
	if int64(len(sizes)) != n || end != stored {
		return chunks{}, fmt.Errorf("by the manifest the log has %d chunks with %d bytes, and there are %d chunks with %d: one of them is damaged or cut off",
			n, end, len(sizes), stored)
	}
	return out, nil
}

// chunkSizes decodes the sizes of want chunks: base64 of a zstd frame of what parseSizes reads.
func chunkSizes(text string, want int) ([]int32, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	raw, err := inflate(packed, 4*(want+2))
	if err != nil {
		return nil, err
	}
	return parseSizes(raw)
}

// parseSizes reads sizes as the plugin's ChunkSizesBinaryCodec writes them: int32 count; if it is 1, the value; if more, int32 base, a byte for the
// width, all but the last as unsigned differences to base of that many bytes, and the last in full. All big-endian.
func parseSizes(raw []byte) ([]int32, error) {
	errCut := errors.New("the sizes are cut off or too long")
	if len(raw) < 4 {
		return nil, errCut
	}
	count := int64(int32(binary.BigEndian.Uint32(raw)))
	raw = raw[4:]
	switch {
	case count < 0:
		return nil, fmt.Errorf("there are %d sizes", count)
	case count == 0 && len(raw) == 0:
		return nil, nil
	case count == 1 && len(raw) == 4:
		return []int32{int32(binary.BigEndian.Uint32(raw))}, nil
	case count < 2 || len(raw) < 5:
		return nil, errCut
	}
	base, width := int64(int32(binary.BigEndian.Uint32(raw))), int64(raw[4])
	raw = raw[5:]
	if width < 1 || width > 4 {
		return nil, fmt.Errorf("the sizes have a width of %d bytes", width)
	}
	if int64(len(raw)) != (count-1)*width+4 {
		return nil, errCut
	}
	out := make([]int32, 0, count)
	for range count - 1 {
		v := uint32(0)
		for _, b := range raw[:width] {
			v = v<<8 | uint32(b)
		}
		raw = raw[width:]
		if base+int64(v) > math.MaxInt32 {
			return nil, fmt.Errorf("a size of %d bytes", base+int64(v))
		}
		out = append(out, int32(base+int64(v)))
	}
	return append(out, int32(binary.BigEndian.Uint32(raw))), nil
}

// zstdDecoder decodes frames of at most a chunk. It may be used concurrently.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxChunk), zstd.WithDecoderLowmem(true))
})

// inflate decompresses packed, which gives at most so many bytes.
func inflate(packed []byte, most int) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	var h zstd.Header
	if err := h.Decode(packed); err == nil && h.HasFCS && h.FrameContentSize > uint64(most) {
		return nil, fmt.Errorf("%d bytes are compressed where %d are expected", h.FrameContentSize, most)
	}
	out, err := d.DecodeAll(packed, nil)
	if err == nil && len(out) > most {
		err = fmt.Errorf("%d bytes are compressed where %d are expected", len(out), most)
	}
	return out, err
}
