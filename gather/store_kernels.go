package gather

func plainCopy32(dst, src []byte, ids []int32, w int) {
	for i, v := range ids {
		copy(dst[i*w:(i+1)*w], src[int(v)*w:])
	}
}
func plainCopy64(dst, src []byte, ids []int64, w int) {
	for i, v := range ids {
		copy(dst[i*w:(i+1)*w], src[int(v)*w:])
	}
}
func plainOK32(ids []int32, n int64) bool {
	for _, v := range ids {
		if v < 0 || int64(v) >= n {
			return false
		}
	}
	return true
}
func plainOK64(ids []int64, n int64) bool {
	for _, v := range ids {
		if v < 0 || int64(v) >= n {
			return false
		}
	}
	return true
}
