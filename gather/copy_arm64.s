//go:build !purego

#include "textflag.h"

// PREFETCH prefetches the first lines (R4) of the rows that n ids (R1, R2) name,
// and their last. LOAD reads an id and steps to the next.
#define PREFETCH(LOAD, SIZE) \
	MOVD src+0(FP), R0; \
	MOVD ids+8(FP), R1; \
	MOVD n+16(FP), R2; \
	MOVD rowBytes+24(FP), R3; \
	MOVD lines+32(FP), R4; \
	SUB $1, R3, R9; \
row: \
	LOAD.P SIZE(R1), R5; \
	MADD R3, R0, R5, R6; \
	ADD R9, R6, R7; \
	CBZ R4, last; \
	MOVD R4, R8; \
line: \
	PRFM (R6), PLDL1KEEP; \
	ADD $64, R6, R6; \
	SUBS $1, R8, R8; \
	BNE line; \
last: \
	PRFM (R7), PLDL1KEEP; \
	SUBS $1, R2, R2; \
	BNE row; \
	RET

// func prefetchRows32(src unsafe.Pointer, ids *int32, n, rowBytes, lines int)
TEXT ·prefetchRows32(SB), NOSPLIT|NOFRAME, $0-40
	PREFETCH(MOVW, 4)

// func prefetchRows64(src unsafe.Pointer, ids *int64, n, rowBytes, lines int)
TEXT ·prefetchRows64(SB), NOSPLIT|NOFRAME, $0-40
	PREFETCH(MOVD, 8)
