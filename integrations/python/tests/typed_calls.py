"""What type checkers say of calls: mypy finds each line wrong that has a comment, or the comment is."""
import khop

khop.Loader("cora.khop", [15, 10], sampler="ppr", alpha=0.2, batch_size=512, max_memory="4GB", device="cpu")
khop.Loader("cora.khop", batch_size="512")  # type: ignore[arg-type]
khop.Loader("cora.khop", sampler="ppr", alpha="0.2")  # type: ignore[arg-type]
khop.Loader("cora.khop", node_columns=[7])  # type: ignore[list-item]
khop.Loader("cora.khop", timeout="1s")  # type: ignore[arg-type]
khop.Loader("cora.khop", batchsize=512)  # type: ignore[call-arg]
khop.write("cora.khop", {}, by_time=3)  # type: ignore[arg-type]
khop.write("cora.khop", {}, bytime=True)  # type: ignore[call-arg]
khop.embedding.Live("cora.khop", "model", max_memory=1 << 30).update(features=([7], [[0.5]]))
khop.embedding.Live("cora.khop", "model", workers="2")  # type: ignore[arg-type]
khop.embedding.Live("cora.khop", "model").update(features=[7])  # type: ignore[arg-type]
