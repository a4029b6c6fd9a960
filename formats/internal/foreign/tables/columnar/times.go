package columnar

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// TimesOf appends times of a column: text as microseconds, integers as int64, floats as they are. One that is missing
// is source.NoTime, or NaN.
func (f *Field) TimesOf(v *Vector, rows int, dtype unified.DType, to []byte) ([]byte, error) {
	if f.Text {
		for i := range rows {
			at := int64(source.NoTime)
			if text := strings.TrimSpace(string(v.Texts[i])); text != "" && !v.Null(i) {
				var ok bool
				if at, ok = ParseTime(text); !ok {
					return nil, AtRow(i, fmt.Errorf("%.40q is no date and no time, such as 2026-01-31 or "+
						"2026-01-31T12:00:00.5Z, of whole microseconds", text))
				}
			}
			to = binary.LittleEndian.AppendUint64(to, uint64(at))
		}
		return to, nil
	}
	from := len(to)
	if dtype == unified.Int64 && f.DType == unified.Uint64 {
		for i := 0; i < rows; i++ {
			if f.DType.Integer(v.Data[8*i:]) < 0 && !v.Null(i) {
				return nil, AtRow(i, fmt.Errorf("the time %v is too large", f.DType.Float(v.Data[8*i:])))
			}
		}
	}
	if to = source.Convert(to, f.DType, dtype, v.Data); !dtype.IsFloat() && v.Valid != nil && !f.List {
		for i, there := range v.Valid {
			if !there {
				binary.LittleEndian.PutUint64(to[from+8*i:], 1<<63) // source.NoTime
			}
		}
	}
	return to, nil
}

// timeLayouts are how dates and times are written; without a zone they are UTC. time.Parse takes fractions of seconds
// behind any of them.
var timeLayouts = []string{time.DateOnly, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04",
	"2006-01-02 15:04Z07:00"}

// ParseTime returns a date or time in microseconds; ok is false for other texts, and for finer ones.
func ParseTime(text string) (_ int64, ok bool) {
	if len(text) < len(time.DateOnly) || text[4] != '-' || text[7] != '-' {
		return 0, false
	}
	if len(text) > 10 && text[10] == 'T' {
		text = text[:10] + " " + text[11:]
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMicro(), t.Nanosecond()%1000 == 0
		}
	}
	return 0, false
}
