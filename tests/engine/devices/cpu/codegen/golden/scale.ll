declare <32 x float> @"llvm.masked.load.v32f32.p0"(ptr %".1", <32 x i1> %".2", <32 x float> %".3")

declare void @"llvm.masked.store.v32f32.p0"(<32 x float> %".1", ptr %".2", <32 x i1> %".3")

define void @"scale"(ptr %pointers, ptr %arguments, i64 %begin, i64 %end) #0 {
entry.1:
  %v2 = getelementptr i8, ptr %arguments, i64 0
  %v3 = load i64, ptr %v2, align 8
  %v4 = getelementptr i8, ptr %pointers, i64 0
  %v5 = load ptr, ptr %v4, align 8
  %v6 = getelementptr i8, ptr %pointers, i64 8
  %v7 = load ptr, ptr %v6, align 8
  %v8 = getelementptr i8, ptr %pointers, i64 16
  %v9 = load ptr, ptr %v8, align 8
  %v10 = load float, ptr %v7, align 4
  %v11 = insertelement <32 x float> poison, float %v10, i32 0
  %v12 = shufflevector <32 x float> %v11, <32 x float> poison, <32 x i32> zeroinitializer
  br label %loop.13
loop.13:
  %v16 = phi i64 [ %begin, %entry.1 ], [ %v46, %join.37 ]
  %v17 = icmp slt i64 %v16, %end
  br i1 %v17, label %do.14, label %done.15
do.14:
  %v18 = sub i64 %end, %v16
  %v19 = icmp sge i64 %v18, 32
  br i1 %v19, label %yes.20, label %no.21
done.15:
  ret void
yes.20:
  %v23 = mul i64 %v16, 4
  %v24 = getelementptr i8, ptr %v5, i64 %v23
  %v25 = load <32 x float>, ptr %v24, align 4
  br label %join.22
no.21:
  %v26 = mul i64 %v16, 4
  %v27 = getelementptr i8, ptr %v5, i64 %v26
  %v28 = trunc i64 %v18 to i8
  %v29 = insertelement <32 x i8> poison, i8 %v28, i32 0
  %v30 = shufflevector <32 x i8> %v29, <32 x i8> poison, <32 x i32> zeroinitializer
  %v31 = icmp ult <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31>, %v30
  %v32 = call <32 x float> @"llvm.masked.load.v32f32.p0"(ptr %v27, <32 x i1> %v31, <32 x float> zeroinitializer)
  br label %join.22
join.22:
  %v33 = phi <32 x float> [ %v25, %yes.20 ], [ %v32, %no.21 ]
  %v34 = fmul <32 x float> %v33, %v12
  br i1 %v19, label %yes.35, label %no.36
yes.35:
  %v38 = mul i64 %v16, 4
  %v39 = getelementptr i8, ptr %v9, i64 %v38
  store <32 x float> %v34, ptr %v39, align 4
  br label %join.37
no.36:
  %v40 = mul i64 %v16, 4
  %v41 = getelementptr i8, ptr %v9, i64 %v40
  %v42 = trunc i64 %v18 to i8
  %v43 = insertelement <32 x i8> poison, i8 %v42, i32 0
  %v44 = shufflevector <32 x i8> %v43, <32 x i8> poison, <32 x i32> zeroinitializer
  %v45 = icmp ult <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31>, %v44
  call void @"llvm.masked.store.v32f32.p0"(<32 x float> %v34, ptr %v41, <32 x i1> %v45)
  br label %join.37
join.37:
  %v46 = add i64 %v16, 32
  br label %loop.13
}
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
