; The runs of a program of scalars, in order. Each has the number of its loop, its length, how many terms are folded, the
; place of its results, and of three operands the place, the step from one result to the next and that from one term to
; the next; places are those of numbers in `values`.
@loops = internal constant [$count x ptr] [ $loops ]

define void @run(ptr %values, ptr %runs, i64 %count) nounwind {
entry:
  %last = getelementptr [13 x i64], ptr %runs, i64 %count
  br label %head

head:
  %run = phi ptr [ %runs, %entry ], [ %next, %body ]
  %more = icmp ult ptr %run, %last
  br i1 %more, label %body, label %done

body:
  %next = getelementptr [13 x i64], ptr %run, i64 1
$words
  %at = getelementptr ptr, ptr @loops, i64 %w0
  %loop = load ptr, ptr %at
  %out = getelementptr double, ptr %values, i64 %w3
  %x = getelementptr double, ptr %values, i64 %w4
  %y = getelementptr double, ptr %values, i64 %w7
  %z = getelementptr double, ptr %values, i64 %w10
  call void %loop(i64 %w1, i64 %w2, ptr %out, ptr %x, i64 %w5, i64 %w6, ptr %y, i64 %w8, i64 %w9, ptr %z, i64 %w11, i64 %w12)
  br label %head

done:
  ret void
}

!0 = distinct !{!0, !{!"llvm.loop.vectorize.enable", i1 false}}
!1 = distinct !{!1, !{!"llvm.loop.unroll.full"}}
!2 = distinct !{!2, !{!"llvm.loop.vectorize.width", i32 $lanes}}
